// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What is compiled, as one list: the CUDA dispatchers fold over it, and the capability rows are
// made from it, so that no row can promise what no kernel does.
#pragma once

#include <kvpool/kernels/cache_operand.hpp>

#include <array>
#include <cstdint>

namespace kvpool::kernels {

/// One instantiation of the append kernel: source and cache of one format. It copies rows of any
/// length that is a multiple of `kDimStep` up to `kMaxDim`.
struct AppendInstance {
  ElementType type = ElementType::kBf16;
};

/// One instantiation of the simple attention kernel: queries, cache and outputs of one format, rows
/// of up to `max_dim` elements, K and V alike. The first that holds the longer row runs.
struct SimpleAttentionInstance {
  ElementType type = ElementType::kBf16;
  std::int32_t max_dim = 0;
};

inline constexpr std::array kAppendInstances = {
    AppendInstance{ElementType::kBf16},
    AppendInstance{ElementType::kFp16},
    AppendInstance{ElementType::kFp32},
};

inline constexpr std::array kSimpleAttentionInstances = {
    SimpleAttentionInstance{ElementType::kBf16, kMaxDim},
    SimpleAttentionInstance{ElementType::kFp16, kMaxDim},
    SimpleAttentionInstance{ElementType::kFp32, kMaxDim},
};

/// True if an append kernel for this format is compiled.
[[nodiscard]] constexpr bool appends(ElementType type) noexcept {
  for (const AppendInstance& instance : kAppendInstances) {
    if (instance.type == type) {
      return true;
    }
  }
  return false;
}

/// True if an attention kernel for this format and these rows is compiled.
[[nodiscard]] constexpr bool attends(ElementType type, std::int32_t dim) noexcept {
  for (const SimpleAttentionInstance& instance : kSimpleAttentionInstances) {
    if (instance.type == type && dim <= instance.max_dim) {
      return true;
    }
  }
  return false;
}

}  // namespace kvpool::kernels
