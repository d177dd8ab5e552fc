// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// A block's part of one item, and what all its warps need of it.
#pragma once

#include "smxx/packed_attention/launch.hpp"
#include "smxx/packed_attention/ptx.cuh"
#include "smxx/packed_attention/traits.hpp"

#include <cstdint>

namespace kvpool::kernels::packed {

/// A part of one item: what one block computes between two merges.
struct Segment {
  std::int32_t row;  ///< table row
  std::int32_t kv_head;
  std::int32_t first_row;  ///< first query row (token * group + head of the group) of the tile
  std::int32_t rows;       ///< query rows of the tile
  std::int32_t q_first;
  std::int32_t q_count;
  std::int32_t length;
  std::int32_t first_key;   ///< first key that any query token sees
  std::int32_t step_begin;  ///< steps [step_begin, step_end) of the sequence
  std::int32_t step_end;
};

/// Copies the queries of a segment into shared memory; rows that do not exist become 0.
template <typename T>
__device__ inline void load_queries(const KernelParams& params, const Segment& segment,
                                    char* shared) {
  const std::uint32_t base = shared_address(shared + T::kQueryOffset);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < T::kRows * T::kChunks; i += T::kThreads) {
    const int row = i / T::kChunks;
    const int chunk = i % T::kChunks;
    const int packed = segment.first_row + min(row, segment.rows - 1);
    const std::int32_t t = params.group.quotient(packed);
    const std::int64_t token = segment.q_first + t;
    const std::int64_t head =
        segment.kv_head * params.group.divisor() + params.group.rest(packed, t);
    const char* from =
        params.q + 2 * (token * params.q_token_stride + head * params.q_head_stride) + 16 * chunk;
    copy_async(base + static_cast<std::uint32_t>(row * T::kRowBytes + 16 * (chunk ^ (row & 7))),
               from, row < segment.rows ? 16U : 0U);
  }
  commit_copies();
}

/// Keys that each query row of the segment sees, for steps in which they differ.
template <typename T>
__device__ inline void load_limits(const KernelParams& params, const Segment& segment,
                                   char* shared) {
  auto* limits = reinterpret_cast<std::int32_t*>(shared + T::kLimitOffset);
  const int row = static_cast<int>(threadIdx.x);
  if (row < T::kRows) {
    KeyRange keys{0, 0};
    if (row < segment.rows) {
      keys = visible_keys(params.mask, segment.length, segment.q_count,
                          params.group.quotient(segment.first_row + row));
    }
    limits[row] = static_cast<std::int32_t>(keys.first);
    limits[T::kRows + row] =
        static_cast<std::int32_t>(min(keys.end, std::int64_t{kStep} * segment.step_end));
  }
}

}  // namespace kvpool::kernels::packed
