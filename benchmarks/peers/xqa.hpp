// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// XQA as FlashInfer has it, compiled for one shape: a block of query tokens that all see each
// other, head dim 64, four query heads a KV head, pages of 32, bf16.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace kvpool::bench::peers {

inline constexpr int kXqaDim = 64;
inline constexpr int kXqaGroup = 4;
inline constexpr int kXqaPage = 32;
/// Query tokens of which a mask has one word.
inline constexpr int kXqaMostQueries = 32;

/// One launch. Strides in elements; tables of `columns` entries a row.
struct XqaLaunch {
  const void* q = nullptr;
  void* out = nullptr;
  void* k = nullptr;
  void* v = nullptr;
  const std::int32_t* entries = nullptr;
  const std::int32_t* lengths = nullptr;
  const std::uint32_t* mask = nullptr;  ///< [rows, queries] visible tokens of the block, as bits
  std::uint32_t* semaphores = nullptr;  ///< zero before the first launch
  void* scratch = nullptr;
  std::int64_t page_stride = 0;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  std::uint32_t multiprocessors = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t rows = 0;
  std::uint32_t queries = 0;
  std::uint32_t columns = 0;
};

/// Enqueues it.
void launch_xqa(const XqaLaunch& launch, cudaStream_t stream);

}  // namespace kvpool::bench::peers
