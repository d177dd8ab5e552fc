// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/checks.hpp>
#include <kvpool/kernels/reference.hpp>

#include "reference/element.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpool::kernels::reference {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

Error out_of_range(std::string_view field, std::string message) {
  return {.code = ErrorCode::kOutOfRange, .message = std::move(message), .key = std::string{field}};
}

Result<void> check_row(const AttentionParams& params, std::int64_t row) {
  const PageTableView& table = params.table;
  const std::int64_t first = first_query(params, row);
  const std::int64_t count = first_query(params, row + 1) - first;
  if (count < 0 || count > params.max_query_tokens) {
    return out_of_range("q_indptr",
                        fmt::format("row {} has {} query tokens: 0 to max_query_tokens = {}", row,
                                    count, params.max_query_tokens));
  }
  const std::int64_t length = table.lengths[row];
  const std::int64_t room = table.row_stride_entries * table.tokens_per_block;
  if (length < 0 || length > room) {
    return out_of_range(
        "table.lengths",
        fmt::format("row {} has {} tokens: its table row holds 0 to {}", row, length, room));
  }
  const std::int64_t blocks = (length + table.tokens_per_block - 1) / table.tokens_per_block;
  for (std::int64_t block = 0; block < blocks; ++block) {
    if (const auto entry = table.entries[row * table.row_stride_entries + block]; entry < 0) {
      return out_of_range("table.entries",
                          fmt::format("entry of row {}, block {} is {}", row, block, entry));
    }
  }
  return {};
}

Result<void> check_contents(const AttentionParams& params) {
  const std::int64_t rows = params.table.rows;
  if (rows == 0) {
    return params.tokens == 0 ? Result<void>{}
                              : out_of_range("tokens", "query tokens without a row");
  }
  if (first_query(params, 0) != 0 || first_query(params, rows) != params.tokens) {
    return out_of_range(
        "q_indptr", fmt::format("q_indptr goes from {} to {}: from 0 to tokens = {}",
                                first_query(params, 0), first_query(params, rows), params.tokens));
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    if (auto checked = check_row(params, row); !checked) {
      return checked;
    }
  }
  return {};
}

/// One query token of one head.
struct Query {
  std::int64_t row = 0;
  std::int64_t token = 0;
  std::int64_t head = 0;
  KeyRange keys{};
};

class TokenAttention {
 public:
  explicit TokenAttention(const AttentionParams& params)
      : params_{params}, output_(static_cast<std::size_t>(params.v.dim)) {}

  void compute(const Query& query) {
    score(query);
    float sum = 0.0F;
    std::ranges::fill(output_, 0.0F);
    const float maximum = scores_.empty() ? kNothing : *std::ranges::max_element(scores_);
    if (maximum != kNothing) {
      sum = accumulate(query, maximum);
    }
    write(query, maximum, sum);
  }

 private:
  [[nodiscard]] const std::byte* row_at(const CacheOperand& cache, const Query& query,
                                        std::int64_t key) const {
    const PageTableView& table = params_.table;
    const std::int64_t entry =
        table.entries[query.row * table.row_stride_entries + key / table.tokens_per_block];
    const std::int64_t kv_head = query.head / (params_.query_heads / params_.kv_heads);
    return row_of(cache, entry, kv_head, key % table.tokens_per_block);
  }

  void score(const Query& query) {
    scores_.clear();
    const std::int64_t first =
        query.token * params_.q_token_stride + query.head * params_.q_head_stride;
    for (std::int64_t key = query.keys.first; key < query.keys.end; ++key) {
      const std::byte* const k = row_at(params_.k, query, key);
      float dot = 0.0F;
      for (std::int64_t i = 0; i < params_.k.dim; ++i) {
        dot += load(params_.q_type, params_.q, first + i) * load(params_.k.type, k, i);
      }
      const float score = dot * params_.scale * params_.k_scale;
      scores_.push_back(
          params_.softcap > 0.0F ? params_.softcap * std::tanh(score / params_.softcap) : score);
    }
  }

  float accumulate(const Query& query, float maximum) {
    float sum = 0.0F;
    for (std::size_t i = 0; i < scores_.size(); ++i) {
      const float weight = std::exp(scores_[i] - maximum);
      sum += weight;
      const std::byte* const v =
          row_at(params_.v, query, query.keys.first + static_cast<std::int64_t>(i));
      for (std::size_t d = 0; d < output_.size(); ++d) {
        output_[d] += weight * load(params_.v.type, v, static_cast<std::int64_t>(d));
      }
    }
    return sum;
  }

  void write(const Query& query, float maximum, float sum) const {
    const std::int64_t first =
        query.token * params_.out_token_stride + query.head * params_.out_head_stride;
    float denominator = sum;
    if (params_.sinks != nullptr && sum > 0.0F) {
      denominator += std::exp(params_.sinks[query.head] - maximum);
    }
    const float factor = sum > 0.0F ? params_.v_scale / denominator : 0.0F;
    for (std::size_t d = 0; d < output_.size(); ++d) {
      // Without a key the output is 0, not 0 times something.
      const float value = maximum == kNothing ? 0.0F : output_[d] * factor;
      store(params_.out_type, params_.out, first + static_cast<std::int64_t>(d), value);
    }
    if (params_.lse != nullptr) {
      const float natural = maximum == kNothing ? kNothing : maximum + std::log(sum);
      params_.lse[query.token * params_.lse_token_stride + query.head * params_.lse_head_stride] =
          params_.lse_base == LogBase::kTwo ? natural * std::numbers::log2e_v<float> : natural;
    }
  }

  const AttentionParams& params_;
  std::vector<float> scores_;
  std::vector<float> output_;
};

}  // namespace

Result<void> attention(const AttentionParams& params) {
  if (auto checked = check(params); !checked) {
    return checked;
  }
  if (auto checked = check_contents(params); !checked) {
    return checked;
  }
  TokenAttention attention{params};
  for (std::int64_t row = 0; row < params.table.rows; ++row) {
    const std::int64_t first = first_query(params, row);
    const std::int64_t count = first_query(params, row + 1) - first;
    for (std::int64_t t = 0; t < count; ++t) {
      const KeyRange keys = visible_keys(params, params.table.lengths[row], count, t);
      for (std::int64_t head = 0; head < params.query_heads; ++head) {
        attention.compute({.row = row, .token = first + t, .head = head, .keys = keys});
      }
    }
  }
  return {};
}

}  // namespace kvpool::kernels::reference
