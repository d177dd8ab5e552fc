// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Packed attention over a DeviceBatch: plan, exchange and workspace of exactly the reported sizes,
// with guards behind them, and nothing but garbage in the plan and the workspace before a launch.
#pragma once

#include <kvpool/kernels/cuda.hpp>
#include <kvpool/kernels/packed_attention.hpp>

#include "kernels/device_batch.hpp"
#include "kernels/gpu_support.hpp"
#include "kernels/paged_batch.hpp"
#include "support/catch.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvpool::test {

/// Multiprocessors of the device.
inline std::int32_t multiprocessors() {
  int count = 0;
  require_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
  return count;
}

/// How a test wants packed attention to run.
struct PackedRun {
  std::int32_t split_tokens = 0;
  /// 0: as many as `packed_sizes` says.
  std::int32_t blocks = 0;
  std::int64_t max_length = 1 << 20;
  /// As in `PackedOptions`.
  std::int32_t instance = -1;
};

class PackedBatch {
 public:
  PackedBatch(const DeviceBatch& device, kernels::AttentionParams params, PackedRun run = {})
      : device_{device},
        params_{params},
        options_{.split_tokens = run.split_tokens,
                 .max_length = run.max_length,
                 .instance = run.instance},
        sizes_{sizes_of(params, run)},
        plan_{static_cast<std::size_t>(sizes_.plan.count())},
        workspace_{static_cast<std::size_t>(sizes_.workspace.count())},
        exchange_{std::vector<std::int32_t>(static_cast<std::size_t>(sizes_.counters))} {
    if (run.blocks > 0) {
      sizes_.blocks = run.blocks;
    }
    params_.workspace = sizes_.workspace.count() > 0 ? workspace_.at(0) : nullptr;
    params_.workspace_bytes = sizes_.workspace.count();
    params_.split = {.plan = plan_.at(0),
                     .plan_bytes = sizes_.plan.count(),
                     .counters = exchange_.as<std::int32_t>(),
                     .counter_count = sizes_.counters,
                     .blocks = sizes_.blocks};
  }

  [[nodiscard]] kernels::PackedPlanParams plan_params() const {
    return {.lengths = params_.table.lengths,
            .q_indptr = params_.q_indptr,
            .plan = plan_.at(0),
            .plan_bytes = sizes_.plan.count(),
            .rows = params_.table.rows,
            .max_query_tokens = params_.max_query_tokens,
            .query_heads = params_.query_heads,
            .kv_heads = params_.kv_heads,
            .head_dim = params_.k.dim,
            .window_left = params_.window_left,
            .blocks = sizes_.blocks,
            .split_tokens = options_.split_tokens,
            .instance = options_.instance};
  }
  [[nodiscard]] const kernels::AttentionParams& params() const { return params_; }
  [[nodiscard]] const kernels::PackedOptions& options() const { return options_; }
  [[nodiscard]] const kernels::PackedSizes& sizes() const { return sizes_; }
  [[nodiscard]] std::vector<std::byte> plan() const {
    return plan_.read(0, static_cast<std::size_t>(sizes_.plan.count()));
  }

  /// Makes the plan and computes.
  void enqueue(const kernels::AttentionParams& params, StreamHandle stream) const {
    must(kernels::plan_packed_attention(plan_params(), stream));
    must(kernels::packed_attention(params, options_, stream));
  }

  /// What a launch writes. The exchange is zero afterwards.
  [[nodiscard]] AttentionResult run() const {
    require_cuda(cudaMemset(plan_.at(0), 0xFF, plan_.size()));
    require_cuda(cudaMemset(workspace_.at(0), 0xFF, workspace_.size()));
    const AttentionResult result = device_.run(
        params_, [this](const kernels::AttentionParams& params) { enqueue(params, {}); });
    static_cast<void>(workspace_.read(0, 0));
    static_cast<void>(plan_.read(0, 0));
    const auto words = exchange_.read<std::int32_t>(0, static_cast<std::size_t>(sizes_.counters));
    CHECK(std::ranges::all_of(words, [](std::int32_t word) { return word == 0; }));
    return result;
  }

 private:
  static kernels::PackedSizes sizes_of(const kernels::AttentionParams& params,
                                       const PackedRun& run) {
    return must(kernels::packed_sizes({.rows = params.table.rows,
                                       .max_query_tokens = params.max_query_tokens,
                                       .query_heads = params.query_heads,
                                       .kv_heads = params.kv_heads,
                                       .head_dim = params.k.dim,
                                       .multiprocessors = multiprocessors(),
                                       .split_tokens = run.split_tokens,
                                       .max_length = run.max_length,
                                       .instance = run.instance}));
  }

  const DeviceBatch& device_;
  kernels::AttentionParams params_;
  kernels::PackedOptions options_;
  kernels::PackedSizes sizes_;
  DeviceBytes plan_, workspace_, exchange_;
};

}  // namespace kvpool::test
