// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// How append divides its work among threads: one source for the kernel and for a test on the host.
#pragma once

#include <kvpool/kernels/page_params.hpp>

#include "smxx/device/quotient.hpp"

#include <cassert>
#include <cstddef>
#include <cstdint>

namespace kvpool::kernels {

/// What a thread moves at a time.
struct alignas(16) AppendVector {
  std::uint32_t words[4];
};

/// Vectors of one token's K rows, or V rows.
KVPOOL_HOST_DEVICE constexpr std::int64_t append_vectors(std::int32_t kv_heads,
                                                         const CacheOperand& cache) {
  return kv_heads *
         (cache.dim * element_bytes(cache.type) / static_cast<std::int64_t>(sizeof(AppendVector)));
}

/// Vectors of one token's K and V rows.
KVPOOL_HOST_DEVICE constexpr std::int64_t append_vectors(const AppendParams& params) {
  return append_vectors(params.kv_heads, params.k_cache) +
         (params.v == nullptr ? 0 : append_vectors(params.kv_heads, params.v_cache));
}

/// Work items: the same vector of `tokens` tokens each.
template <int tokens>
KVPOOL_HOST_DEVICE constexpr std::int64_t append_items(const AppendParams& params) {
  return (std::int64_t{params.tokens} + tokens - 1) / tokens * append_vectors(params);
}

/// Copies a vector of `tokens` tokens: all loads are under way before the first store.
template <int tokens>
KVPOOL_HOST_DEVICE inline void append_vector(const AppendParams& params, bool value,
                                             std::int64_t first_token, std::int64_t vector) {
  constexpr std::int64_t kBytes = sizeof(AppendVector);
  const CacheOperand& cache = value ? params.v_cache : params.k_cache;
  const std::int64_t element = element_bytes(cache.type);
  const std::int64_t token_stride =
      (value ? params.v_token_stride : params.k_token_stride) * element;
  const std::int64_t head_stride = (value ? params.v_head_stride : params.k_head_stride) * element;
  const std::int64_t row_vectors = cache.dim * element / kBytes;
  const std::int64_t head = quotient(vector, row_vectors);
  const std::int64_t in_row = (vector - head * row_vectors) * kBytes;
  const char* const from = static_cast<const char*>(value ? params.v : params.k) +
                           first_token * token_stride + head * head_stride + in_row;
  AppendVector values[static_cast<std::size_t>(tokens)];
  std::int64_t places[static_cast<std::size_t>(tokens)];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < tokens; ++i) {
    places[i] = first_token + i < params.tokens ? params.slot_mapping[first_token + i] : -1;
    assert(places[i] >= -1);
    if (first_token + i < params.tokens) {
      values[i] = *reinterpret_cast<const AppendVector*>(from + i * token_stride);
    }
  }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < tokens; ++i) {
    if (places[i] >= 0) {
      const std::int64_t entry = quotient(places[i], params.tokens_per_block);
      const std::int64_t slot = places[i] - entry * params.tokens_per_block;
      *reinterpret_cast<AppendVector*>(static_cast<char*>(cache.base) +
                                       row_offset(cache, entry, head, slot) + in_row) = values[i];
    }
  }
}

/// One work item.
template <int tokens>
KVPOOL_HOST_DEVICE inline void append_item(const AppendParams& params, std::int64_t item) {
  const std::int64_t vectors = append_vectors(params);
  const std::int64_t k_vectors = append_vectors(params.kv_heads, params.k_cache);
  const std::int64_t group = quotient(item, vectors);
  const std::int64_t vector = item - group * vectors;
  const bool value = vector >= k_vectors;
  append_vector<tokens>(params, value, group * tokens, value ? vector - k_vectors : vector);
}

}  // namespace kvpool::kernels
