// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/page_params.hpp>

#include "smxx/device/elements.cuh"

#include <cstdint>

namespace kvpool::kernels {

inline constexpr int kPageCopyThreads = 256;
/// Bytes of a work item: four vectors a thread, so that one large page is spread over many blocks.
inline constexpr std::int64_t kPageCopySlice = std::int64_t{4} * kPageCopyThreads * kVectorBytes;

/// Slices of one piece of a page.
__host__ __device__ inline std::int64_t slices_per_part(const PageCopyParams& params) {
  return (params.part_bytes + kPageCopySlice - 1) / kPageCopySlice;
}

/// One block for each slice.
__global__ void __launch_bounds__(kPageCopyThreads)
    page_copy_kernel(const __grid_constant__ PageCopyParams params) {
  const std::int64_t slices = slices_per_part(params);
  const std::int64_t items = static_cast<std::int64_t>(params.count) * params.parts * slices;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const std::int64_t piece = item / slices;
    const std::int64_t part = piece % params.parts;
    const PageCopyPair pair = params.pairs[piece / params.parts];
    const char* from = static_cast<const char*>(params.source) +
                       pair.source * params.source_entry_stride_bytes +
                       part * params.source_part_stride_bytes;
    char* to = static_cast<char*>(params.destination) +
               pair.destination * params.destination_entry_stride_bytes +
               part * params.destination_part_stride_bytes;
    const std::int64_t first = item % slices * kPageCopySlice;
    const std::int64_t end = min(first + kPageCopySlice, params.part_bytes);
    for (std::int64_t byte = first + static_cast<std::int64_t>(threadIdx.x) * kVectorBytes;
         byte < end; byte += std::int64_t{kPageCopyThreads} * kVectorBytes) {
      *reinterpret_cast<uint4*>(to + byte) = *reinterpret_cast<const uint4*>(from + byte);
    }
  }
}

}  // namespace kvpool::kernels
