// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// A batch of sequences: raw tensors, and the same tensors in the pages of a pool as this file, not
// append, lays them out. Everything that no token owns is NaN, and table entries that no token
// needs are INT_MAX.
#pragma once

#include <kvpool/kernels/params.hpp>

#include "kernels/element_bytes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace kvpool::test {

/// How a page orders its rows.
enum class Rows {
  kTokensHeads,  ///< NHD: all K of a page, then all V; a token's heads side by side
  kHeadsTokens,  ///< HND: all K of a page, then all V; a head's tokens side by side
  kInterleaved,  ///< K and V of each token and head side by side
  kLatent,       ///< one record a token; V is the first part of K
};

/// Shape of a batch.
struct BatchShape {
  kernels::ElementType type = kernels::ElementType::kBf16;
  Rows rows = Rows::kTokensHeads;
  /// Layers are outermost in the pool, else pages are.
  bool layer_major = false;
  std::int32_t layers = 2;
  std::int32_t layer = 1;
  std::int32_t kv_heads = 2;
  std::int32_t group = 2;
  std::int32_t k_dim = 64;
  std::int32_t v_dim = 64;
  std::int32_t page = 16;
  /// Table entries that a page spans, as in pools of several page sizes. Page-major only.
  std::int32_t units = 1;
  std::vector<std::int32_t> lengths{};
  /// Query tokens of each sequence.
  std::vector<std::int32_t> queries{};
  std::uint32_t seed = 1;
};

/// Fills pages by hand. Tokens of all sequences stand one after the other in `k` and `v`.
class PagedBatch {
 public:
  explicit PagedBatch(BatchShape shape);

  [[nodiscard]] const BatchShape& shape() const { return shape_; }
  [[nodiscard]] std::int32_t query_heads() const { return shape_.kv_heads * shape_.group; }
  [[nodiscard]] std::int64_t tokens() const { return sum(shape_.lengths); }
  [[nodiscard]] std::int64_t query_tokens() const { return sum(shape_.queries); }
  [[nodiscard]] std::int64_t element() const { return kernels::element_bytes(shape_.type); }

  /// [tokens, kv_heads, dim] Raw keys and values, as the element type has them.
  std::vector<float> k, v;
  /// [query_tokens, query_heads, k_dim] Raw queries.
  std::vector<float> q;
  /// [query_heads] Raw sinks.
  std::vector<float> sinks;
  /// The pool as it should be.
  std::vector<std::byte> pool;
  /// [sequences, columns] Table.
  std::vector<std::int32_t> entries;
  std::int64_t columns = 0;
  /// [sequences + 1] First query token of each sequence.
  std::vector<std::int32_t> q_indptr;
  /// [tokens] Where append writes each token.
  std::vector<std::int64_t> slots;

  /// K and V of the layer in a pool at `base`.
  [[nodiscard]] kernels::CacheOperand k_cache(void* base) const { return operand(base, false); }
  [[nodiscard]] kernels::CacheOperand v_cache(void* base) const { return operand(base, true); }
  /// Bytes of one table entry.
  [[nodiscard]] std::int64_t entry_stride() const {
    return shape_.layer_major ? layer_bytes() : layer_bytes() * shape_.layers / shape_.units;
  }
  /// Parameters without addresses but those of `base`: contiguous queries and outputs.
  [[nodiscard]] kernels::AttentionParams attention(void* base) const;
  /// Parameters for writing all tokens, without addresses but those of `base`.
  [[nodiscard]] kernels::AppendParams append(void* base) const;

 private:
  static std::int64_t sum(const std::vector<std::int32_t>& numbers) {
    return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
  }
  [[nodiscard]] bool latent() const { return shape_.rows == Rows::kLatent; }
  [[nodiscard]] std::int64_t row_bytes() const {
    return (shape_.k_dim + (latent() ? 0 : shape_.v_dim)) * element();
  }
  [[nodiscard]] std::int64_t layer_bytes() const {
    return std::int64_t{shape_.page} * shape_.kv_heads * row_bytes();
  }
  [[nodiscard]] kernels::CacheOperand operand(void* base, bool value) const;
  void make_tables(std::mt19937& random);
  void fill_pages();

  BatchShape shape_;
  std::int32_t pages_ = 0;
};

inline PagedBatch::PagedBatch(BatchShape shape) : shape_{std::move(shape)} {
  std::mt19937 random{shape_.seed};
  std::normal_distribution<float> normal;
  const Elements elements{shape_.type};
  const auto fill = [&](std::vector<float>& values, std::int64_t count) {
    values.resize(static_cast<std::size_t>(count));
    for (float& value : values) {
      value = elements.round(normal(random));
    }
  };
  fill(k, tokens() * shape_.kv_heads * shape_.k_dim);
  fill(q, query_tokens() * query_heads() * shape_.k_dim);
  fill(sinks, query_heads());
  if (!latent()) {
    fill(v, tokens() * shape_.kv_heads * shape_.v_dim);
  } else {
    for (std::int64_t token = 0; token < tokens(); ++token) {
      const auto first = k.begin() + token * shape_.k_dim;
      v.insert(v.end(), first, first + shape_.v_dim);
    }
  }
  q_indptr = {0};
  for (const std::int32_t count : shape_.queries) {
    q_indptr.push_back(q_indptr.back() + count);
  }
  make_tables(random);
  fill_pages();
}

inline void PagedBatch::make_tables(std::mt19937& random) {
  const auto blocks = [&](std::int32_t length) { return (length + shape_.page - 1) / shape_.page; };
  std::int32_t needed = 0;
  for (const std::int32_t length : shape_.lengths) {
    needed += blocks(length);
    columns = std::max<std::int64_t>(columns, blocks(length) + 2);
  }
  pages_ = needed + 3;
  // Page 0 is never handed out.
  std::vector<std::int32_t> order(static_cast<std::size_t>(pages_ - 1));
  std::iota(order.begin(), order.end(), 1);
  std::shuffle(order.begin(), order.end(), random);
  auto next = order.begin();
  entries.assign(shape_.lengths.size() * static_cast<std::size_t>(columns),
                 std::numeric_limits<std::int32_t>::max());
  for (std::size_t row = 0; row < shape_.lengths.size(); ++row) {
    std::int32_t* const table = entries.data() + static_cast<std::int64_t>(row) * columns;
    for (std::int32_t block = 0; block < blocks(shape_.lengths[row]); ++block) {
      table[block] = *next++ * shape_.units;
    }
    for (std::int32_t token = 0; token < shape_.lengths[row]; ++token) {
      slots.push_back(std::int64_t{table[token / shape_.page]} * shape_.page + token % shape_.page);
    }
  }
}

inline void PagedBatch::fill_pages() {
  pool.assign(static_cast<std::size_t>(layer_bytes() * pages_ * shape_.layers), std::byte{0xFF});
  const Elements elements{shape_.type};
  const auto write = [&](const kernels::CacheOperand& cache, const std::vector<float>& values) {
    std::size_t next = 0;
    for (const std::int64_t slot : slots) {
      for (std::int64_t head = 0; head < shape_.kv_heads; ++head) {
        std::byte* const row =
            static_cast<std::byte*>(cache.base) +
            kernels::row_offset(cache, slot / shape_.page, head, slot % shape_.page);
        for (std::int64_t i = 0; i < cache.dim; ++i) {
          elements.store(row + i * element(), values[next++]);
        }
      }
    }
  };
  write(k_cache(pool.data()), k);
  write(v_cache(pool.data()), v);
}

inline kernels::CacheOperand PagedBatch::operand(void* base, bool value) const {
  const std::int64_t k_row = shape_.k_dim * element();
  const std::int64_t v_row = shape_.v_dim * element();
  const std::int64_t heads = shape_.kv_heads;
  std::int64_t offset = shape_.layer * layer_bytes() * (shape_.layer_major ? pages_ : 1);
  kernels::CacheOperand cache{.entry_stride_bytes = entry_stride(),
                              .dim = value ? shape_.v_dim : shape_.k_dim,
                              .type = shape_.type};
  const std::int64_t row = value ? v_row : k_row;
  switch (shape_.rows) {
    case Rows::kTokensHeads:
      offset += value ? shape_.page * heads * k_row : 0;
      cache.head_stride_bytes = row;
      cache.slot_stride_bytes = heads * row;
      break;
    case Rows::kHeadsTokens:
      offset += value ? shape_.page * heads * k_row : 0;
      cache.head_stride_bytes = shape_.page * row;
      cache.slot_stride_bytes = row;
      break;
    case Rows::kInterleaved:
      offset += value ? k_row : 0;
      cache.head_stride_bytes = k_row + v_row;
      cache.slot_stride_bytes = heads * (k_row + v_row);
      break;
    case Rows::kLatent:
      cache.head_stride_bytes = k_row;
      cache.slot_stride_bytes = k_row;
      break;
  }
  cache.base = static_cast<std::byte*>(base) + offset;
  return cache;
}

inline kernels::AttentionParams PagedBatch::attention(void* base) const {
  const std::int32_t heads = query_heads();
  kernels::AttentionParams params{.k = k_cache(base), .v = v_cache(base)};
  params.table.row_stride_entries = columns;
  params.table.unit_bytes = entry_stride();
  params.table.rows = static_cast<std::int32_t>(shape_.lengths.size());
  params.table.tokens_per_block = shape_.page;
  params.q_token_stride = std::int64_t{heads} * shape_.k_dim;
  params.q_head_stride = shape_.k_dim;
  params.out_token_stride = std::int64_t{heads} * shape_.v_dim;
  params.out_head_stride = shape_.v_dim;
  params.lse_token_stride = heads;
  params.lse_head_stride = 1;
  params.scale = 1.0F / std::sqrt(static_cast<float>(shape_.k_dim));
  params.tokens = static_cast<std::int32_t>(query_tokens());
  params.max_query_tokens = *std::ranges::max_element(shape_.queries);
  params.query_heads = heads;
  params.kv_heads = shape_.kv_heads;
  params.q_type = shape_.type;
  params.out_type = shape_.type;
  return params;
}

inline kernels::AppendParams PagedBatch::append(void* base) const {
  return {.k_cache = k_cache(base),
          .v_cache = v_cache(base),
          .k_token_stride = std::int64_t{shape_.kv_heads} * shape_.k_dim,
          .k_head_stride = shape_.k_dim,
          .v_token_stride = std::int64_t{shape_.kv_heads} * shape_.v_dim,
          .v_head_stride = shape_.v_dim,
          .tokens = static_cast<std::int32_t>(tokens()),
          .kv_heads = shape_.kv_heads,
          .tokens_per_block = shape_.page,
          .source_type = shape_.type};
}

}  // namespace kvpool::test
