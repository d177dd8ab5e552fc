// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/reference.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace kvpool::kernels::reference {
namespace {

std::int64_t first_query(const DecodeRowParams& params, std::int64_t row) {
  return params.q_indptr == nullptr ? row * params.queries : params.q_indptr[row];
}

Result<void> check_contents(const DecodeRowParams& params) {
  const auto fault = [](const char* field, std::string message) {
    return Error{.code = ErrorCode::kOutOfRange, .message = std::move(message), .key = field};
  };
  std::int64_t next = 0;
  for (std::int64_t row = 0; row < params.rows; ++row) {
    const std::int64_t first = first_query(params, row);
    const std::int64_t end = first_query(params, row + 1);
    if (first != next || end < first || end > params.tokens) {
      return fault("q_indptr", fmt::format("row {} has the query tokens {} to {} of {}", row, first,
                                           end, params.tokens));
    }
    next = end;
    const std::int64_t slots = params.row_stride_entries * params.tokens_per_block;
    if (params.lengths[row] < 0 || params.lengths[row] > slots) {
      return fault("lengths", fmt::format("row {} has {} tokens, its pages {}", row,
                                          params.lengths[row], slots));
    }
  }
  if (next != params.tokens) {
    return fault("q_indptr",
                 fmt::format("the rows have {} of {} query tokens", next, params.tokens));
  }
  return {};
}

}  // namespace

Result<void> expand_decode_rows(const DecodeRowParams& params) {
  if (auto checked = check(params); !checked) {
    return checked;
  }
  if (auto checked = check_contents(params); !checked) {
    return checked;
  }
  for (std::int64_t row = 0; row < params.rows; ++row) {
    const std::int64_t length = params.lengths[row];
    const std::int64_t blocks = (length + params.tokens_per_block - 1) / params.tokens_per_block;
    for (std::int64_t t = first_query(params, row); t < first_query(params, row + 1); ++t) {
      params.row_lengths[t] = params.lengths[row];
      std::copy_n(params.entries + row * params.row_stride_entries, blocks,
                  params.row_entries + t * params.row_stride_entries);
    }
  }
  return {};
}

}  // namespace kvpool::kernels::reference
