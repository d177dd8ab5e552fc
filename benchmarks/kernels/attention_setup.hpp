// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Pages, tables, queries and outputs of a case of attention.
#pragma once

#include <kvpool/kernels/cuda.hpp>

#include "attention_case.hpp"
#include "device_helpers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace kvpool::bench {

/// Pages that the tables of a graph go over: more than any L2 holds.
inline constexpr std::int64_t kColdBytes = 800'000'000;
/// Rows of which the outputs are compared.
inline constexpr int kCheckedRows = 4;

inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

template <typename T>
void must(const Result<T>& result, const char* what) {
  if (!result.has_value()) {
    std::fprintf(stderr, "error: %s: %s\n", what, to_string(result.error()).c_str());
    std::exit(4);  // NOLINT(concurrency-mt-unsafe): one thread
  }
}

/// Buffers and parameters of a case.
class Setup {
 public:
  Setup(const AttentionCase& c, Pool& pool)
      : case_{c},
        lengths_host_{c.lengths.empty()
                          ? std::vector<std::int32_t>(static_cast<std::size_t>(c.batch), c.length)
                          : c.lengths},
        columns_{(c.length + c.page - 1) / c.page},
        entries_host_{make_tables()},
        entries_{entries_host_},
        lengths_{lengths_host_},
        q_{rows() * static_cast<std::size_t>(c.head_dim) * 2},
        out_{q_.size()},
        lse_{rows() * 4},
        reference_{q_.size()},
        reference_lse_{rows() * 4},
        sink_{4} {
    const std::int64_t page_bytes = std::int64_t{4} * c.page * c.kv_heads * c.head_dim;
    const auto pool_bytes = static_cast<std::size_t>(page_bytes * c.layers * pages_);
    base_ = static_cast<char*>(pool.at_least(pool_bytes));
    const std::int64_t layer = c.layers / 2;
    layer_bytes_ = page_bytes * (c.layer_major ? pages_ : 1);
    params_.k.base = base_ + layer_bytes_ * layer;
    params_.k.entry_stride_bytes = page_bytes * (c.layer_major ? 1 : c.layers);
    const std::int64_t row = std::int64_t{2} * c.head_dim;
    params_.k.head_stride_bytes = c.hnd ? c.page * row : row;
    params_.k.slot_stride_bytes = c.hnd ? row : c.kv_heads * row;
    params_.k.dim = c.head_dim;
    params_.v = params_.k;
    params_.v.base = static_cast<char*>(params_.k.base) + page_bytes / 2;
    params_.q = q_.get();
    params_.out = out_.get();
    params_.lse = lse_.get<float>();
    params_.table.entries = entries_.get<std::int32_t>();
    params_.table.lengths = lengths_.get<std::int32_t>();
    params_.table.row_stride_entries = columns_;
    params_.table.rows = c.batch;
    params_.table.tokens_per_block = c.page;
    params_.table.unit_bytes = params_.k.entry_stride_bytes;
    params_.q_token_stride = params_.out_token_stride = std::int64_t{c.q_heads} * c.head_dim;
    params_.q_head_stride = params_.out_head_stride = c.head_dim;
    params_.lse_token_stride = c.q_heads;
    params_.lse_head_stride = 1;
    params_.scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
    params_.tokens = c.batch * c.q_len;
    params_.max_query_tokens = c.q_len;
    params_.query_heads = c.q_heads;
    params_.kv_heads = c.kv_heads;
    params_.causal = c.causal ? 1 : 0;
    params_.window_left = c.window_left;
    fill_bf16(q_.get(), q_.size(), 99, nullptr);
  }

  /// Parameters over one of the page tables, of the layer in the middle or of another.
  [[nodiscard]] kernels::AttentionParams over(int table, int layer = -1) const {
    kernels::AttentionParams params = params_;
    params.table.entries += static_cast<std::int64_t>(table % tables_) * case_.batch * columns_;
    if (layer >= 0) {
      const std::int64_t distance = layer_bytes_ * (layer - case_.layers / 2);
      params.k.base = static_cast<char*>(params.k.base) + distance;
      params.v.base = static_cast<char*>(params.v.base) + distance;
    }
    return params;
  }
  [[nodiscard]] int tables() const { return tables_; }
  [[nodiscard]] std::int64_t kv_bytes() const { return kv_bytes_; }
  [[nodiscard]] const std::vector<std::int32_t>& lengths() const { return lengths_host_; }
  /// Entries of a row of the tables.
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  /// The tables, one behind the other, as the device has them.
  [[nodiscard]] const std::vector<std::int32_t>& entries() const { return entries_host_; }
  [[nodiscard]] const AttentionCase& shape() const { return case_; }
  [[nodiscard]] std::uint32_t* sink() const { return sink_.get<std::uint32_t>(); }
  void poison() {
    out_.set(0xFF);
    lse_.set(0xFF);
  }

  /// Compares the first rows with the simple kernel's. @return false if they are too far apart
  bool verify(Line& line, int layer = -1, bool has_lse = true) {
    kernels::AttentionParams params = over(0, layer);
    params.out = reference_.get();
    params.lse = reference_lse_.get<float>();
    params.table.rows = std::min(case_.batch, kCheckedRows);
    params.tokens = params.table.rows * case_.q_len;
    must(kernels::attention(params, {}), "the simple kernel");
    const auto actual = out_.read<std::uint16_t>();
    const auto expected = reference_.read<std::uint16_t>();
    const auto lse = lse_.read<float>();
    const auto expected_lse = reference_lse_.read<float>();
    const auto checked = static_cast<std::size_t>(params.tokens * case_.q_heads);
    double squares = 0.0;
    double norm = 0.0;
    double worst = 0.0;
    double largest = 0.0;
    bool good = true;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const auto value = static_cast<double>(from_bf16(actual[i]));
      good = good && std::isfinite(value);
      if (i < checked * static_cast<std::size_t>(case_.head_dim)) {
        const auto reference = static_cast<double>(from_bf16(expected[i]));
        squares += (value - reference) * (value - reference);
        norm += reference * reference;
        worst = std::max(worst, std::fabs(value - reference));
        largest = std::max(largest, std::fabs(reference));
      }
    }
    for (std::size_t i = 0; i < checked && has_lse; ++i) {
      good = good && std::fabs(lse[i] - expected_lse[i]) < 0x1p-10F;
    }
    line.rel_l2 = std::sqrt(squares / norm);
    line.max_ulp = worst / std::ldexp(1.0, std::ilogb(largest) - 7);
    return good && line.rel_l2 < 1e-2 && line.max_ulp <= 8.0;
  }

 private:
  [[nodiscard]] std::size_t rows() const {
    return static_cast<std::size_t>(case_.batch) * static_cast<std::size_t>(case_.q_len) *
           static_cast<std::size_t>(case_.q_heads);
  }
  std::vector<std::int32_t> make_tables() {
    const std::int64_t token = std::int64_t{4} * case_.kv_heads * case_.head_dim;
    std::int64_t tokens = 0;
    std::int64_t pages = 0;
    for (const std::int32_t length : lengths_host_) {
      tokens += length;
      pages += (length + case_.page - 1) / case_.page;
    }
    kv_bytes_ = tokens * token;
    tables_ = static_cast<int>(std::max<std::int64_t>(1, (kColdBytes - 1) / kv_bytes_ + 1));
    pages_ = pages * tables_ + 1;
    std::vector<std::int32_t> order(static_cast<std::size_t>(pages_ - 1));
    std::iota(order.begin(), order.end(), 1);
    std::shuffle(order.begin(), order.end(), std::mt19937{1});
    std::vector<std::int32_t> entries;
    auto next = order.begin();
    for (int table = 0; table < tables_; ++table) {
      for (const std::int32_t length : lengths_host_) {
        const std::int64_t used = (length + case_.page - 1) / case_.page;
        entries.insert(entries.end(), next, next + used);
        entries.insert(entries.end(), static_cast<std::size_t>(columns_ - used),
                       std::numeric_limits<std::int32_t>::max());
        next += used;
      }
    }
    return entries;
  }

  AttentionCase case_;
  std::vector<std::int32_t> lengths_host_;
  std::int64_t columns_;
  std::int64_t pages_ = 0;
  std::int64_t kv_bytes_ = 0;
  int tables_ = 1;
  std::int64_t layer_bytes_ = 0;
  std::vector<std::int32_t> entries_host_;
  DeviceArray entries_, lengths_, q_, out_, lse_, reference_, reference_lse_, sink_;
  char* base_ = nullptr;
  kernels::AttentionParams params_{};
};

}  // namespace kvpool::bench
