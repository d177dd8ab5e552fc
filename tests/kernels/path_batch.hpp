// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Attention paths over a DeviceBatch: tables of decode rows made by the device, plans, exchange and
// workspace of each path.
#pragma once

#include <kvpool/kernels/attention_path.hpp>
#include <kvpool/kernels/cuda.hpp>

#include "kernels/device_batch.hpp"
#include "kernels/device_bytes.hpp"
#include "kernels/packed_batch.hpp"
#include "kernels/paged_batch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace kvpool::test {

class PathBatch {
 public:
  /// @param params of the batch, without a causal mask for the classic forms
  PathBatch(const PagedBatch& batch, const DeviceBatch& device,
            const kernels::AttentionParams& params, kernels::AttentionPath path)
      : device_{device}, params_{params} {
    step_.path = path;
    step_.max_length = std::max(1, *std::ranges::max_element(batch.shape().lengths));
    if (path == kernels::AttentionPath::kDecodeRows) {
      const auto tokens = static_cast<std::size_t>(params.tokens);
      row_entries_.emplace(tokens * static_cast<std::size_t>(batch.columns) * 4);
      row_lengths_.emplace(tokens * 4);
      step_.rows = params.table;
      step_.rows.entries = row_entries_->as<std::int32_t>();
      step_.rows.lengths = row_lengths_->as<std::int32_t>();
      step_.rows.rows = params.tokens;
    }
    const kernels::PackedOptions options = options_on_path(step_);
    packed_.emplace(device, on_path(step_, params),
                    PackedRun{.split_tokens = options.split_tokens,
                              .max_length = options.split_tokens > 0 ? step_.max_length : 1 << 20});
  }

  [[nodiscard]] const kernels::PathStep& step() const { return step_; }
  /// The batch's parameters, with the path's plan, counters and workspace.
  [[nodiscard]] kernels::AttentionParams params() const {
    kernels::AttentionParams params = params_;
    params.split = packed_->params().split;
    params.workspace = packed_->params().workspace;
    params.workspace_bytes = packed_->params().workspace_bytes;
    return params;
  }
  /// What a step does once: the table of decode rows, and the plan.
  void prepare(StreamHandle stream) const {
    if (step_.path == kernels::AttentionPath::kDecodeRows) {
      must(kernels::expand_decode_rows({.entries = params_.table.entries,
                                        .lengths = params_.table.lengths,
                                        .q_indptr = params_.q_indptr,
                                        .row_entries = row_entries_->as<std::int32_t>(),
                                        .row_lengths = row_lengths_->as<std::int32_t>(),
                                        .row_stride_entries = params_.table.row_stride_entries,
                                        .rows = params_.table.rows,
                                        .tokens = params_.tokens,
                                        .queries = params_.max_query_tokens,
                                        .tokens_per_block = params_.table.tokens_per_block},
                                       stream));
    }
    must(kernels::plan_packed_attention(packed_->plan_params(), stream));
  }
  /// A step of one layer.
  [[nodiscard]] AttentionResult run(kernels::PathCalls& calls) const {
    return device_.run(params(), [&](const kernels::AttentionParams& with_outputs) {
      prepare({});
      must(kernels::attention_on_path(step_, with_outputs, calls, {}));
    });
  }
  [[nodiscard]] std::vector<std::int32_t> row_lengths() const {
    return row_lengths_->read<std::int32_t>(0, static_cast<std::size_t>(params_.tokens));
  }

 private:
  const DeviceBatch& device_;
  kernels::AttentionParams params_;
  kernels::PathStep step_{};
  std::optional<DeviceBytes> row_entries_{}, row_lengths_{};
  std::optional<PackedBatch> packed_{};
};

}  // namespace kvpool::test
