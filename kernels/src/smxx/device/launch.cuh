// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What the launchers share.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kvpool::kernels {

/// Thread blocks of a launch. Kernels loop over their work items, so a larger count of them needs
/// no larger grid; this one keeps every device busy and all indices far from their limits.
inline constexpr std::int64_t kMaxBlocks = 65'536;

/// Enqueues a kernel of one parameter struct for `items` work items, of which each block takes
/// `items_per_block` at a time. The error of this launch, not of an earlier one, is returned.
template <typename Params>
cudaError_t launch_items(void (*kernel)(Params), const Params& params, std::int64_t items,
                         std::int64_t items_per_block, unsigned threads, cudaStream_t stream) {
  if (items <= 0) {
    return cudaSuccess;
  }
  const std::int64_t blocks = (items - 1) / items_per_block + 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3{static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks)};
  config.blockDim = dim3{threads};
  config.stream = stream;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, params);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // reported here, so that nobody finds it again
  }
  return status;
}

}  // namespace kvpool::kernels
