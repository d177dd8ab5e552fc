// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace kvpool::block {

/// Division of numbers below 2^32 by a divisor that is fixed when the tables are set up: a
/// multiplication and a shift. Hot calls divide by page sizes, and the processor's own division
/// takes as long as a visit to its second cache.
class Divider {
 public:
  /// Divides by 1.
  constexpr Divider() noexcept = default;
  /// @pre 1 <= divisor < 2^31
  constexpr explicit Divider(std::int64_t divisor) noexcept
      : divisor_{divisor},
        factor_{(std::uint64_t{1} << 63) / static_cast<std::uint64_t>(divisor) + 1} {}

  /// floor(value / divisor). @pre 0 <= value < 2^32
  [[nodiscard]] constexpr std::int64_t floor(std::int64_t value) const noexcept {
    // factor = (2^63 + e) / divisor with 0 < e <= divisor: the error, value * e / 2^63, is too
    // small to reach the next whole number.
    return static_cast<std::int64_t>(
        static_cast<std::uint64_t>((static_cast<Wide>(value) * factor_) >> 63));
  }
  /// ceil(value / divisor). @pre 0 <= value, value + divisor <= 2^32
  [[nodiscard]] constexpr std::int64_t ceil(std::int64_t value) const noexcept {
    return floor(value + divisor_ - 1);
  }
  /// What is divided by.
  [[nodiscard]] constexpr std::int64_t divisor() const noexcept { return divisor_; }

 private:
  __extension__ using Wide = unsigned __int128;

  std::int64_t divisor_ = 1;
  std::uint64_t factor_ = (std::uint64_t{1} << 63) + 1;
};

}  // namespace kvpool::block
