// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/decode_row_params.hpp>

#include <cstdint>

namespace kvpool::kernels {

inline constexpr int kDecodeRowThreads = 256;
/// Entries of a row that a thread block copies at a time.
inline constexpr std::int64_t kDecodeRowEntries = 1024;

/// Work items of an expansion: parts of table rows.
__host__ __device__ inline std::int64_t decode_row_parts(const DecodeRowParams& params) {
  const std::int64_t parts =
      (params.row_stride_entries + kDecodeRowEntries - 1) / kDecodeRowEntries;
  return parts > 0 ? parts : 1;
}

/// One thread block for a part of a row: an entry is read once and written for each query token.
__global__ void __launch_bounds__(kDecodeRowThreads)
    decode_row_kernel(const __grid_constant__ DecodeRowParams params) {
  const std::int64_t parts = decode_row_parts(params);
  const std::int64_t items = params.rows * parts;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const std::int64_t row = item / parts;
    const std::int64_t part = item - row * parts;
    const std::int64_t first =
        params.q_indptr == nullptr ? row * params.queries : params.q_indptr[row];
    const std::int64_t end =
        params.q_indptr == nullptr ? first + params.queries : params.q_indptr[row + 1];
    const std::int32_t length = params.lengths[row];
    if (part == 0) {
      for (std::int64_t t = first + threadIdx.x; t < end; t += kDecodeRowThreads) {
        params.row_lengths[t] = length;
      }
    }
    const std::int64_t blocks =
        (std::int64_t{length} + params.tokens_per_block - 1) / params.tokens_per_block;
    const std::int64_t last = min(blocks, (part + 1) * kDecodeRowEntries);
    for (std::int64_t column = part * kDecodeRowEntries + threadIdx.x; column < last;
         column += kDecodeRowThreads) {
      const std::int32_t entry = params.entries[row * params.row_stride_entries + column];
      for (std::int64_t t = first; t < end; ++t) {
        params.row_entries[t * params.row_stride_entries + column] = entry;
      }
    }
  }
}

}  // namespace kvpool::kernels
