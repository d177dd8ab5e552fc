// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/cache_operand.hpp>
#include <kvpool/kernels/narrow_float.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kvpool::kernels::reference {

/// Element `index` of an array. @pre `type` is fp32, bf16 or fp16
inline float load(ElementType type, const void* array, std::int64_t index) noexcept {
  const auto* const at = static_cast<const std::byte*>(array) + index * element_bytes(type);
  if (type == ElementType::kFp32) {
    float value = 0.0F;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return type == ElementType::kBf16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

/// Writes element `index` of an array, rounded. @pre `type` is fp32, bf16 or fp16
inline void store(ElementType type, void* array, std::int64_t index, float value) noexcept {
  auto* const at = static_cast<std::byte*>(array) + index * element_bytes(type);
  if (type == ElementType::kFp32) {
    std::memcpy(at, &value, sizeof(value));
    return;
  }
  const std::uint16_t bits =
      type == ElementType::kBf16 ? float_to_bf16(value) : float_to_fp16(value);
  std::memcpy(at, &bits, sizeof(bits));
}

/// Row of a cache.
inline std::byte* row_of(const CacheOperand& cache, std::int64_t entry, std::int64_t head,
                         std::int64_t slot) noexcept {
  return static_cast<std::byte*>(cache.base) + row_offset(cache, entry, head, slot);
}

}  // namespace kvpool::kernels::reference
