// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace kvpool {

/// A 64-bit signed count of one unit, named by `Tag`. Different units do not mix: adding pages to
/// tokens does not compile.
/// @pre Operators do not overflow. Sums and products of untrusted numbers go through `CheckedInt`.
template <typename Tag>
class Quantity {
 public:
  /// Zero.
  constexpr Quantity() noexcept = default;
  /// Wraps a plain number; the unit is the type's.
  constexpr explicit Quantity(std::int64_t count) noexcept : count_{count} {}

  /// The plain number, in this type's unit.
  [[nodiscard]] constexpr std::int64_t count() const noexcept { return count_; }

  /// Orders by count.
  friend constexpr auto operator<=>(Quantity, Quantity) noexcept = default;

  /// Sum of two counts of one unit.
  friend constexpr Quantity operator+(Quantity a, Quantity b) noexcept {
    return Quantity{a.count_ + b.count_};
  }
  /// Difference of two counts of one unit.
  friend constexpr Quantity operator-(Quantity a, Quantity b) noexcept {
    return Quantity{a.count_ - b.count_};
  }
  /// Scaled by a plain number.
  friend constexpr Quantity operator*(Quantity a, std::int64_t scale) noexcept {
    return Quantity{a.count_ * scale};
  }
  /// Scaled by a plain number.
  friend constexpr Quantity operator*(std::int64_t scale, Quantity a) noexcept { return a * scale; }
  /// How often `b` fits into `a`, rounded down.
  friend constexpr std::int64_t operator/(Quantity a, Quantity b) noexcept {
    return a.count_ / b.count_;
  }
  /// Remainder of `a / b`.
  friend constexpr Quantity operator%(Quantity a, Quantity b) noexcept {
    return Quantity{a.count_ % b.count_};
  }
  /// Adds in place.
  constexpr Quantity& operator+=(Quantity other) noexcept { return *this = *this + other; }
  /// Subtracts in place.
  constexpr Quantity& operator-=(Quantity other) noexcept { return *this = *this - other; }

 private:
  std::int64_t count_ = 0;
};

/// Bytes of memory.
using Bytes = Quantity<struct BytesTag>;
/// Token positions of a sequence, or slots of a page.
using Tokens = Quantity<struct TokensTag>;
/// Pages of one page size in one pool.
using Pages = Quantity<struct PagesTag>;
/// Slabs of one pool: the unit in which groups share its memory.
using Slabs = Quantity<struct SlabsTag>;
/// Model layers.
using Layers = Quantity<struct LayersTag>;
/// Attention heads (query or KV heads).
using Heads = Quantity<struct HeadsTag>;
/// Elements of a tensor, whatever their type.
using Elements = Quantity<struct ElementsTag>;
/// Sequences (requests) that hold cache at the same time.
using Sequences = Quantity<struct SequencesTag>;

/// `ceil(a / b)` for `a >= 0`, `b > 0`, without the overflow of `(a + b - 1) / b`.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// Pages of `tokens_per_block` slots that hold `tokens`, the last one perhaps in part.
[[nodiscard]] constexpr Pages pages_ceil(Tokens tokens, Tokens tokens_per_block) noexcept {
  return Pages{ceil_div(tokens.count(), tokens_per_block.count())};
}

/// `value` rounded up to a multiple of `alignment`.
[[nodiscard]] constexpr Bytes align_up(Bytes value, Bytes alignment) noexcept {
  return Bytes{ceil_div(value.count(), alignment.count()) * alignment.count()};
}

/// Literals such as `2_MiB` or `64_tokens`.
namespace literals {
/// Bytes.
consteval Bytes operator""_B(unsigned long long n) { return Bytes{static_cast<std::int64_t>(n)}; }
/// 2^10 bytes.
consteval Bytes operator""_KiB(unsigned long long n) {
  return Bytes{static_cast<std::int64_t>(n) << 10};
}
/// 2^20 bytes.
consteval Bytes operator""_MiB(unsigned long long n) {
  return Bytes{static_cast<std::int64_t>(n) << 20};
}
/// 2^30 bytes.
consteval Bytes operator""_GiB(unsigned long long n) {
  return Bytes{static_cast<std::int64_t>(n) << 30};
}
/// 10^9 bytes.
consteval Bytes operator""_GB(unsigned long long n) {
  return Bytes{static_cast<std::int64_t>(n) * 1'000'000'000};
}
/// Tokens.
consteval Tokens operator""_tokens(unsigned long long n) {
  return Tokens{static_cast<std::int64_t>(n)};
}
/// Pages.
consteval Pages operator""_pages(unsigned long long n) {
  return Pages{static_cast<std::int64_t>(n)};
}
/// Sequences.
consteval Sequences operator""_sequences(unsigned long long n) {
  return Sequences{static_cast<std::int64_t>(n)};
}
}  // namespace literals

}  // namespace kvpool
