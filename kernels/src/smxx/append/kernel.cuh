// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "smxx/append/vectors.hpp"

#include <cstdint>

namespace kvpool::kernels {

inline constexpr int kAppendThreads = 256;
/// Tokens of which a thread copies the same vector, where there are many: so many loads are under
/// way at a time.
inline constexpr int kAppendTokens = 4;

/// One thread for a vector of some tokens; K and V in one launch.
template <int tokens>
__global__ void __launch_bounds__(kAppendThreads)
    append_kernel(const __grid_constant__ AppendParams params) {
  const std::int64_t items = append_items<tokens>(params);
  const std::int64_t step = std::int64_t{gridDim.x} * kAppendThreads;
  for (std::int64_t item = std::int64_t{blockIdx.x} * kAppendThreads + threadIdx.x; item < items;
       item += step) {
    append_item<tokens>(params, item);
  }
}

}  // namespace kvpool::kernels
