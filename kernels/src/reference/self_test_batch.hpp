// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// A batch for the self-test: tensors, and the same in the pages of a pool, laid out by hand.
#pragma once

#include <kvpool/kernels/narrow_float.hpp>
#include <kvpool/kernels/params.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace kvpool::kernels {

/// What is run.
struct SelfTestShape {
  ElementType type = ElementType::kBf16;
  std::int32_t dim = 64;
  std::int32_t page = 16;
  std::int32_t group = 1;
  std::int32_t queries = 1;
  std::int32_t causal = 1;
  std::int32_t window_left = -1;
  bool heads_first = false;  ///< a head's tokens side by side, else a token's heads
};

/// One element of memory. @pre a format of 16 or 32 bits
inline void store_element(std::byte* to, ElementType type, float value) {
  if (type == ElementType::kFp32) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const std::uint16_t bits =
      type == ElementType::kBf16 ? float_to_bf16(value) : float_to_fp16(value);
  std::memcpy(to, &bits, sizeof(bits));
}
[[nodiscard]] inline float load_element(const std::byte* from, ElementType type) {
  if (type == ElementType::kFp32) {
    float value = 0.0F;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return type == ElementType::kBf16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

class SelfTestBatch {
 public:
  static constexpr std::int32_t kKvHeads = 2;

  explicit SelfTestBatch(const SelfTestShape& shape) : shape_{shape}, lengths{300, 0, 33, 129} {
    const std::int64_t size = element_bytes(shape.type);
    make_tables();
    for (const std::int32_t length : lengths) {
      tokens += length;
    }
    k = random_elements(std::int64_t{tokens} * kKvHeads * shape.dim);
    v = random_elements(std::int64_t{tokens} * kKvHeads * shape.dim);
    q = random_elements(std::int64_t{query_tokens()} * query_heads() * shape.dim);
    // All that no token owns is NaN.
    pool.assign(static_cast<std::size_t>(pages_ * page_bytes()), std::byte{0xFF});
    const std::int64_t row = shape.dim * size;
    for (std::size_t token = 0; token < slots.size(); ++token) {
      for (std::int64_t head = 0; head < kKvHeads; ++head) {
        const auto from = static_cast<std::int64_t>(token) * kKvHeads * row + head * row;
        for (const bool value : {false, true}) {
          const CacheOperand cache = operand(pool.data(), value);
          std::memcpy(
              static_cast<std::byte*>(cache.base) +
                  row_offset(cache, slots[token] / shape.page, head, slots[token] % shape.page),
              (value ? v : k).data() + from, static_cast<std::size_t>(row));
        }
      }
    }
  }

  [[nodiscard]] const SelfTestShape& shape() const { return shape_; }
  [[nodiscard]] std::int32_t query_heads() const { return kKvHeads * shape_.group; }
  [[nodiscard]] std::int32_t query_tokens() const {
    return static_cast<std::int32_t>(lengths.size()) * shape_.queries;
  }
  [[nodiscard]] std::int64_t columns() const { return columns_; }

  /// K or V in a pool at `base`.
  [[nodiscard]] CacheOperand operand(void* base, bool value) const {
    const std::int64_t row = shape_.dim * element_bytes(shape_.type);
    return {.base = static_cast<std::byte*>(base) + (value ? page_bytes() / 2 : 0),
            .entry_stride_bytes = page_bytes(),
            .head_stride_bytes = shape_.heads_first ? shape_.page * row : row,
            .slot_stride_bytes = shape_.heads_first ? row : kKvHeads * row,
            .dim = shape_.dim,
            .type = shape_.type};
  }
  /// Attention over a pool at `base`; queries, outputs and table without addresses.
  [[nodiscard]] AttentionParams attention(void* base) const {
    AttentionParams params{.k = operand(base, false), .v = operand(base, true)};
    params.table.row_stride_entries = columns_;
    params.table.unit_bytes = page_bytes();
    params.table.rows = static_cast<std::int32_t>(lengths.size());
    params.table.tokens_per_block = shape_.page;
    params.q_token_stride = params.out_token_stride = std::int64_t{query_heads()} * shape_.dim;
    params.q_head_stride = params.out_head_stride = shape_.dim;
    params.lse_token_stride = query_heads();
    params.lse_head_stride = 1;
    params.scale = 1.0F / std::sqrt(static_cast<float>(shape_.dim));
    params.tokens = query_tokens();
    params.max_query_tokens = shape_.queries;
    params.query_heads = query_heads();
    params.kv_heads = kKvHeads;
    params.causal = shape_.causal;
    params.window_left = shape_.window_left;
    params.q_type = params.out_type = shape_.type;
    return params;
  }

 private:
  SelfTestShape shape_;
  std::int64_t pages_ = 0;
  std::int64_t columns_ = 0;
  std::uint64_t state_ = 0x9E3779B97F4A7C15U;

 public:
  std::vector<std::int32_t> lengths;
  std::int32_t tokens = 0;               ///< of all sequences
  std::vector<std::byte> k, v, q, pool;  ///< [tokens, heads, dim], and the pool as it should be
  std::vector<std::int32_t> entries;     ///< [rows, columns]
  std::vector<std::int64_t> slots;       ///< [tokens] where append writes

 private:
  [[nodiscard]] std::int64_t page_bytes() const {
    return std::int64_t{2} * shape_.page * kKvHeads * shape_.dim * element_bytes(shape_.type);
  }
  /// Between -1 and 1, of about seven digits.
  float next() {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return static_cast<float>(static_cast<std::int64_t>(state_ >> 40U) - (std::int64_t{1} << 23)) /
           static_cast<float>(std::int64_t{1} << 23);
  }
  std::vector<std::byte> random_elements(std::int64_t count) {
    const auto size = static_cast<std::size_t>(element_bytes(shape_.type));
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size);
    for (std::size_t i = 0; i < bytes.size(); i += size) {
      store_element(bytes.data() + i, shape_.type, 2.0F * next());
    }
    return bytes;
  }
  /// Pages in descending order, page 0 unused, and no entry behind them that can be read.
  void make_tables() {
    const auto blocks = [this](std::int32_t length) {
      return (length + shape_.page - 1) / shape_.page;
    };
    std::int32_t needed = 0;
    for (const std::int32_t length : lengths) {
      needed += blocks(length);
      columns_ = std::max<std::int64_t>(columns_, blocks(length) + 1);
    }
    pages_ = needed + 1;
    entries.assign(lengths.size() * static_cast<std::size_t>(columns_),
                   std::numeric_limits<std::int32_t>::max());
    std::int32_t page = needed;
    for (std::size_t row = 0; row < lengths.size(); ++row) {
      for (std::int32_t token = 0; token < lengths[row]; ++token) {
        auto& entry = entries[row * static_cast<std::size_t>(columns_) +
                              static_cast<std::size_t>(token / shape_.page)];
        if (token % shape_.page == 0) {
          entry = page--;
        }
        slots.push_back(std::int64_t{entry} * shape_.page + token % shape_.page);
      }
    }
  }
};

}  // namespace kvpool::kernels
