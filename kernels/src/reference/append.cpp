// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/checks.hpp>
#include <kvpool/kernels/reference.hpp>

#include "reference/element.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kvpool::kernels::reference {
namespace {

/// A source of rows, `[tokens, heads, cache.dim]`.
struct Source {
  const void* data = nullptr;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
};

void copy_rows(const AppendParams& params, const Source& source, const CacheOperand& cache) {
  const std::int64_t size = element_bytes(cache.type);
  for (std::int64_t token = 0; token < params.tokens; ++token) {
    const std::int64_t target = params.slot_mapping[token];
    if (target < 0) {
      continue;
    }
    for (std::int64_t head = 0; head < params.kv_heads; ++head) {
      const auto* const row = static_cast<const std::byte*>(source.data) +
                              (token * source.token_stride + head * source.head_stride) * size;
      std::memcpy(
          row_of(cache, target / params.tokens_per_block, head, target % params.tokens_per_block),
          row, static_cast<std::size_t>(cache.dim * size));
    }
  }
}

}  // namespace

Result<void> append(const AppendParams& params) {
  if (auto checked = check(params); !checked) {
    return checked;
  }
  for (std::int64_t token = 0; token < params.tokens; ++token) {
    if (params.slot_mapping[token] < -1) {
      return Error{.code = ErrorCode::kOutOfRange,
                   .message = fmt::format(
                       "slot_mapping[{}] is {}: give a slot from 0, or -1 to skip the token", token,
                       params.slot_mapping[token]),
                   .key = "slot_mapping"};
    }
  }
  copy_rows(params, {params.k, params.k_token_stride, params.k_head_stride}, params.k_cache);
  if (params.v != nullptr) {
    copy_rows(params, {params.v, params.v_token_stride, params.v_head_stride}, params.v_cache);
  }
  return {};
}

}  // namespace kvpool::kernels::reference
