// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/narrow_float.hpp>

#include "support/catch.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace kvpool::kernels {
namespace {

TEST_CASE("bf16 rounds to nearest, ties to even", "[kernels]") {
  CHECK(float_to_bf16(1.0F) == 0x3F80);
  CHECK(float_to_bf16(-2.5F) == 0xC020);
  // 1 + 2^-8 lies half-way between 1 and 1 + 2^-7; 1 + 3 * 2^-8 half-way above the odd one.
  CHECK(float_to_bf16(1.00390625F) == 0x3F80);
  CHECK(float_to_bf16(1.01171875F) == 0x3F82);
  CHECK(float_to_bf16(std::nextafter(1.00390625F, 2.0F)) == 0x3F81);
  CHECK(float_to_bf16(std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(float_to_bf16(-std::numeric_limits<float>::infinity()) == 0xFF80);
  CHECK(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7F800001U)))));
}

TEST_CASE("fp16 rounds to nearest, ties to even, and knows its subnormals", "[kernels]") {
  CHECK(float_to_fp16(1.0F) == 0x3C00);
  CHECK(float_to_fp16(-0.333251953125F) == 0xB555);
  CHECK(float_to_fp16(65'504.0F) == 0x7BFF);
  CHECK(float_to_fp16(65'519.0F) == 0x7BFF);
  CHECK(float_to_fp16(65'520.0F) == 0x7C00);
  CHECK(float_to_fp16(0x1p-14F) == 0x0400);
  CHECK(float_to_fp16(0x1p-24F) == 0x0001);
  CHECK(float_to_fp16(0x1p-25F) == 0x0000);
  CHECK(float_to_fp16(0x1.8p-24F) == 0x0002);
  CHECK(float_to_fp16(std::nextafter(0x1p-25F, 1.0F)) == 0x0001);
  CHECK(float_to_fp16(-0.0F) == 0x8000);
  CHECK(float_to_fp16(0x1.ffcp-15F) == 0x0400);
  CHECK(std::isnan(fp16_to_float(float_to_fp16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST_CASE("every 16-bit number survives the way to fp32 and back", "[kernels]") {
  for (std::uint32_t i = 0; i <= 0xFFFF; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    if (!std::isnan(fp16_to_float(bits)) && float_to_fp16(fp16_to_float(bits)) != bits) {
      FAIL("fp16 " << i);
    }
    if (!std::isnan(bf16_to_float(bits)) && float_to_bf16(bf16_to_float(bits)) != bits) {
      FAIL("bf16 " << i);
    }
  }
}

}  // namespace
}  // namespace kvpool::kernels
