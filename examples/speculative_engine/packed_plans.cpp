// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "packed_plans.hpp"

#include <algorithm>

namespace example {
namespace {

using kvpool::Bytes;

constexpr Bytes kAlignment{256};
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
  const auto sizes = kvpool::kernels::packed_sizes(plans.largest_);
  if (!sizes) {
    return sizes.error();
  }
  plans.sizes_ = *sizes;
  return plans;
}

Bytes PackedPlans::bytes() const {
  return kPlans * kvpool::align_up(sizes_.plan, kAlignment) + counter_bytes();
}

std::uintptr_t PackedPlans::counters() const {
  return base_ +
         static_cast<std::uintptr_t>(kPlans * kvpool::align_up(sizes_.plan, kAlignment).count());
}

Bytes PackedPlans::counter_bytes() const {
  return Bytes{std::int64_t{sizes_.counters} * std::int64_t{sizeof(std::int32_t)}};
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
  const auto offset = place * kvpool::align_up(sizes_.plan, kAlignment).count();
  params.split = {.plan = reinterpret_cast<void*>(  // NOLINT: of a GPU, perhaps
                      base_ + static_cast<std::uintptr_t>(offset)),
                  .plan_bytes = sizes_.plan.count(),
                  .counters = reinterpret_cast<std::int32_t*>(counters()),  // NOLINT: as above
                  .counter_count = sizes_.counters,
                  .blocks = sizes->blocks};
  return params;
}

}  // namespace example
