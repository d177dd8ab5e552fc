// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/table_batch.hpp>
#include <kvpool/kernels/page_params.hpp>

namespace kvpool::kernels {

/// What `apply_table_deltas` is launched with after `TableBatch::enqueue`, for the tables of all
/// groups at once. The same in every step.
/// @pre the batch is updated `kByKernel`
[[nodiscard]] constexpr TableDeltaParams table_delta_params(const TableUpdate& update) noexcept {
  return {.entries = update.entries,
          .lengths = update.lengths,
          .deltas = update.deltas,
          .delta_count = update.delta_count,
          .new_lengths = update.new_lengths,
          .row_stride_entries = update.row_stride_entries,
          .delta_capacity = update.delta_capacity,
          .rows = update.rows};
}

}  // namespace kvpool::kernels
