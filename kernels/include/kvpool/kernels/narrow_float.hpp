// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

/// 16-bit floating formats on the host. Narrowing rounds to nearest, ties to even; a NaN stays a
/// NaN.
namespace kvpool::kernels {

/// Value of a bfloat16.
[[nodiscard]] constexpr float bf16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// Nearest bfloat16; values beyond its range become infinite.
[[nodiscard]] constexpr std::uint16_t float_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return static_cast<std::uint16_t>((bits >> 16U) | 0x0040U);  // quiet
  }
  const std::uint32_t odd = (bits >> 16U) & 1U;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + odd) >> 16U);
}

/// Value of an IEEE binary16.
[[nodiscard]] constexpr float fp16_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {
    // Zero and subnormals: the fraction counts 2^-24.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 0x1FU ? 0xFFU : exponent + 112U;
  return std::bit_cast<float>(sign | (wide << 23U) | (fraction << 13U));
}

/// Nearest IEEE binary16; values from 65,520 on become infinite.
[[nodiscard]] constexpr std::uint16_t float_to_fp16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return static_cast<std::uint16_t>(sign | 0x7E00U);
  }
  if (magnitude >= 0x477FF000U) {  // 65,520: half-way between the largest half and the next
    return static_cast<std::uint16_t>(sign | 0x7C00U);
  }
  if (magnitude < 0x38800000U) {    // below 2^-14: subnormal
    if (magnitude < 0x33000000U) {  // below 2^-25: nothing rounds up from here
      return static_cast<std::uint16_t>(sign);
    }
    const std::uint32_t fraction = (magnitude & 0x7FFFFFU) | 0x800000U;
    const std::uint32_t shift = 126U - (magnitude >> 23U);
    const std::uint32_t kept = fraction >> shift;
    const std::uint32_t rest = fraction & ((1U << shift) - 1U);
    const std::uint32_t half = 1U << (shift - 1U);
    const bool up = rest > half || (rest == half && (kept & 1U) != 0);
    return static_cast<std::uint16_t>(sign | (kept + (up ? 1U : 0U)));
  }
  const std::uint32_t odd = (magnitude >> 13U) & 1U;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xFFFU + odd) >> 13U));
}

}  // namespace kvpool::kernels
