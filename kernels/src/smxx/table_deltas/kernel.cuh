// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/page_params.hpp>

#include <cstdint>

namespace kvpool::kernels {

inline constexpr int kTableDeltaThreads = 256;

/// One thread for each delta, and for each length.
__global__ void __launch_bounds__(kTableDeltaThreads)
    table_delta_kernel(const __grid_constant__ TableDeltaParams params) {
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kTableDeltaThreads + threadIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kTableDeltaThreads;
  const std::int64_t count = params.delta_count == nullptr
                                 ? params.delta_capacity
                                 : min(*params.delta_count, params.delta_capacity);
  for (std::int64_t i = first; i < count; i += step) {
    const PageTableDelta delta = params.deltas[i];
    params.entries[delta.row * params.row_stride_entries + delta.column] = delta.entry;
  }
  if (params.new_lengths != nullptr) {
    for (std::int64_t row = first; row < params.rows; row += step) {
      params.lengths[row] = params.new_lengths[row];
    }
  }
}

}  // namespace kvpool::kernels
