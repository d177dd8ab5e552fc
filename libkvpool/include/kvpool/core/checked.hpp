// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace kvpool {

/// An integer that remembers overflow: formulas are written plainly and asked once, at the end,
/// whether the result fits into 64 bits. Intermediates have 128 bits. A failed operation, or a
/// division by zero, makes every later result fail.
class CheckedInt {
 public:
  /// The 128-bit intermediate type.
  __extension__ using Wide = __int128;

  /// Starts from a 64-bit number.
  constexpr CheckedInt(std::int64_t value) noexcept : value_{value} {}  // NOLINT: a number is one

  /// Sum.
  friend constexpr CheckedInt operator+(CheckedInt a, CheckedInt b) noexcept {
    CheckedInt r{0};
    r.failed_ = __builtin_add_overflow(a.value_, b.value_, &r.value_) || a.failed_ || b.failed_;
    return r;
  }
  /// Difference.
  friend constexpr CheckedInt operator-(CheckedInt a, CheckedInt b) noexcept {
    CheckedInt r{0};
    r.failed_ = __builtin_sub_overflow(a.value_, b.value_, &r.value_) || a.failed_ || b.failed_;
    return r;
  }
  /// Product.
  friend constexpr CheckedInt operator*(CheckedInt a, CheckedInt b) noexcept {
    CheckedInt r{0};
    r.failed_ = __builtin_mul_overflow(a.value_, b.value_, &r.value_) || a.failed_ || b.failed_;
    return r;
  }
  /// `floor(a / b)` for non-negative `a` and positive `b`.
  [[nodiscard]] friend constexpr CheckedInt floor_div(CheckedInt a, CheckedInt b) noexcept {
    if (a.failed_ || b.failed_ || b.value_ <= 0 || a.value_ < 0) {
      return failure();
    }
    CheckedInt r{0};
    r.value_ = a.value_ / b.value_;
    return r;
  }
  /// `ceil(a / b)` for non-negative `a` and positive `b`.
  [[nodiscard]] friend constexpr CheckedInt ceil_div(CheckedInt a, CheckedInt b) noexcept {
    if (a.failed_ || b.failed_ || b.value_ <= 0 || a.value_ < 0) {
      return failure();
    }
    CheckedInt r{0};
    r.value_ = a.value_ / b.value_ + (a.value_ % b.value_ != 0 ? 1 : 0);
    return r;
  }
  /// The smaller of two; fails if either failed.
  [[nodiscard]] friend constexpr CheckedInt min(CheckedInt a, CheckedInt b) noexcept {
    CheckedInt r = a.value_ < b.value_ ? a : b;
    r.failed_ = a.failed_ || b.failed_;
    return r;
  }
  /// The larger of two; fails if either failed.
  [[nodiscard]] friend constexpr CheckedInt max(CheckedInt a, CheckedInt b) noexcept {
    CheckedInt r = a.value_ < b.value_ ? b : a;
    r.failed_ = a.failed_ || b.failed_;
    return r;
  }
  /// Adds in place.
  constexpr CheckedInt& operator+=(CheckedInt other) noexcept { return *this = *this + other; }

  /// The number, or nothing when an operation failed or the result does not fit into 64 bits.
  [[nodiscard]] constexpr std::optional<std::int64_t> to_int64() const noexcept {
    if (failed_ || value_ > std::numeric_limits<std::int64_t>::max() ||
        value_ < std::numeric_limits<std::int64_t>::min()) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(value_);
  }
  /// The number, or the nearest end of the 64-bit range when it does not fit.
  /// A failed operation counts as the upper end.
  [[nodiscard]] constexpr std::int64_t saturated() const noexcept {
    const auto exact = to_int64();
    if (exact.has_value()) {
      return *exact;
    }
    return !failed_ && value_ < 0 ? std::numeric_limits<std::int64_t>::min()
                                  : std::numeric_limits<std::int64_t>::max();
  }

 private:
  [[nodiscard]] static constexpr CheckedInt failure() noexcept {
    CheckedInt r{0};
    r.failed_ = true;
    return r;
  }

  Wide value_ = 0;
  bool failed_ = false;
};

}  // namespace kvpool
