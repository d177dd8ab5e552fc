// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "packed_plans.hpp"

#include <algorithm>

namespace example {
namespace {

using kvpool::Bytes;

/// Three passes, each for layers with and without a window.
constexpr std::int64_t kPlans = 6;

}  // namespace

kvpool::Result<PackedPlans> PackedPlans::create(const ModelShape& shape, std::int64_t rows,
                                                std::int64_t longest,
                                                std::int64_t multiprocessors) {
  PackedPlans plans;
  plans.largest_ = {.rows = rows,
                    .max_query_tokens = std::max<std::int64_t>(longest, kBlock),
                    .query_heads = shape.query_heads,
                    .kv_heads = shape.kv_heads,
                    .head_dim = shape.head_dim,
                    .multiprocessors = multiprocessors};
  const auto memory = kvpool::kernels::packed_memory(plans.largest_, kPlans);
  if (!memory) {
    return memory.error();
  }
  plans.memory_ = *memory;
  return plans;
}

kvpool::Result<kvpool::kernels::AttentionParams> PackedPlans::with_plan(
    kvpool::kernels::AttentionParams params, PassKind pass) const {
  kvpool::kernels::PackedShape shape = largest_;
  shape.max_query_tokens = std::max(params.max_query_tokens, 1);
  // Memory is for the largest pass; the number of blocks is this one's.
  const auto sizes = kvpool::kernels::packed_sizes(shape);
  if (!sizes) {
    return sizes.error();
  }
  const std::int64_t place = 2 * static_cast<std::int64_t>(pass) + (params.window_left < 0 ? 0 : 1);
  const Bytes offset = memory_.plan_offset(place);
  params.split = {.plan = reinterpret_cast<void*>(  // NOLINT: of a GPU, perhaps
                      base_ + static_cast<std::uintptr_t>(offset.count())),
                  .plan_bytes = memory_.plan.count(),
                  .counters = reinterpret_cast<std::int32_t*>(counters()),  // NOLINT: as above
                  .counter_count = sizes->counters,
                  .blocks = sizes->blocks};
  return params;
}

}  // namespace example
