// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/page_params.hpp>

#include "smxx/device/elements.cuh"

#include <cassert>
#include <cstdint>

namespace kvpool::kernels {

/// Threads of a block, and work items (one token and head each, a warp each) it takes at a time.
inline constexpr int kAppendThreads = 256;
inline constexpr int kAppendWarps = kAppendThreads / 32;

/// Copies one row by a warp, 16 bytes a lane.
__device__ inline void append_row(const void* source, std::int64_t source_element,
                                  const CacheOperand& cache, std::int64_t offset, int lane) {
  const std::int64_t bytes = element_bytes(cache.type);
  const auto* from =
      reinterpret_cast<const uint4*>(static_cast<const char*>(source) + source_element * bytes);
  auto* to = reinterpret_cast<uint4*>(static_cast<char*>(cache.base) + offset);
  const int vectors = static_cast<int>(cache.dim * bytes) / kVectorBytes;
  for (int i = lane; i < vectors; i += 32) {
    to[i] = from[i];
  }
}

/// One warp for each (token, head), K and V together.
__global__ void __launch_bounds__(kAppendThreads)
    append_kernel(const __grid_constant__ AppendParams params) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t items = static_cast<std::int64_t>(params.tokens) * params.kv_heads;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kAppendWarps;
  for (std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kAppendWarps + warp;
       item < items; item += step) {
    const std::int64_t token = item / params.kv_heads;
    const std::int64_t head = item % params.kv_heads;
    const std::int64_t place = params.slot_mapping[token];
    assert(place >= -1);
    if (place < 0) {
      continue;
    }
    const std::int64_t entry = place / params.tokens_per_block;
    const std::int64_t slot = place % params.tokens_per_block;
    append_row(params.k, token * params.k_token_stride + head * params.k_head_stride,
               params.k_cache, row_offset(params.k_cache, entry, head, slot), lane);
    if (params.v != nullptr) {
      append_row(params.v, token * params.v_token_stride + head * params.v_head_stride,
                 params.v_cache, row_offset(params.v_cache, entry, head, slot), lane);
    }
  }
}

}  // namespace kvpool::kernels
