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
#include <vector>

namespace kvpool::kernels::reference {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// The partial rows [first, end) of one item.
struct Parts {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

Parts parts_of(const MergeParams& params, std::int64_t item) {
  return params.part_indptr == nullptr
             ? Parts{item * params.parts, (item + 1) * params.parts}
             : Parts{params.part_indptr[item], params.part_indptr[item + 1]};
}

Result<void> check_contents(const MergeParams& params) {
  std::int64_t before = 0;
  const std::int64_t items = std::int64_t{params.tokens} * params.query_heads;
  for (std::int64_t item = 0; item < items && params.part_indptr != nullptr; ++item) {
    const Parts parts = parts_of(params, item);
    if (parts.first != before || parts.end < parts.first) {
      return Error{.code = ErrorCode::kOutOfRange,
                   .message = fmt::format("part_indptr gives item {} the partial rows {} to {} "
                                          "after {}: it ascends from 0",
                                          item, parts.first, parts.end, before),
                   .key = "part_indptr"};
    }
    before = parts.end;
  }
  return {};
}

void merge_item(const MergeParams& params, std::int64_t token, std::int64_t head,
                std::vector<float>& sums) {
  const Parts parts = parts_of(params, token * params.query_heads + head);
  float maximum = kNothing;
  for (std::int64_t part = parts.first; part < parts.end; ++part) {
    maximum = std::max(maximum, params.partial_lse[part]);
  }
  float weights = 0.0F;
  std::ranges::fill(sums, 0.0F);
  for (std::int64_t part = parts.first; part < parts.end; ++part) {
    if (params.partial_lse[part] == kNothing) {
      continue;
    }
    const float weight = std::exp2(params.partial_lse[part] - maximum);
    weights += weight;
    const float* const row = params.partial_out + part * params.partial_row_stride;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] += weight * row[i];
    }
  }
  const bool empty = maximum == kNothing;
  float denominator = weights;
  if (params.sinks != nullptr && !empty) {
    denominator += std::exp2(params.sinks[head] * std::numbers::log2e_v<float> - maximum);
  }
  const std::int64_t first = token * params.out_token_stride + head * params.out_head_stride;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    store(params.out_type, params.out, first + static_cast<std::int64_t>(i),
          empty ? 0.0F : sums[i] / denominator);
  }
  if (params.lse != nullptr) {
    const float base_two = empty ? kNothing : maximum + std::log2(weights);
    params.lse[token * params.lse_token_stride + head * params.lse_head_stride] =
        params.lse_base == LogBase::kTwo ? base_two : base_two * std::numbers::ln2_v<float>;
  }
}

}  // namespace

Result<void> merge(const MergeParams& params) {
  if (auto checked = check(params); !checked) {
    return checked;
  }
  if (auto checked = check_contents(params); !checked) {
    return checked;
  }
  std::vector<float> sums(static_cast<std::size_t>(params.dim));
  for (std::int64_t token = 0; token < params.tokens; ++token) {
    for (std::int64_t head = 0; head < params.query_heads; ++head) {
      merge_item(params, token, head, sums);
    }
  }
  return {};
}

}  // namespace kvpool::kernels::reference
