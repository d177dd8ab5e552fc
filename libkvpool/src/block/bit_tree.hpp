// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block/reserved_array.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace kvpool::block {

/// A set of small integers with a tree of summaries: the smallest member is found in a few words,
/// whatever the size.
class BitTree {
 public:
  BitTree() noexcept = default;
  /// An empty set of numbers below `size`.
  explicit BitTree(std::size_t size) noexcept {
    std::size_t words = size;
    do {
      words = (words + 63) / 64;
      levels_[depth_++] = ReservedArray<std::uint64_t>{words};
    } while (words > 1);
  }

  /// False when the system did not give the address space.
  [[nodiscard]] bool ok() const noexcept {
    for (std::size_t level = 0; level < depth_; ++level) {
      if (!levels_[level].ok()) {
        return false;
      }
    }
    return true;
  }
  /// Adds a number.
  void insert(std::size_t i) noexcept {
    for (std::size_t level = 0; level < depth_; ++level) {
      std::uint64_t& word = levels_[level][i / 64];
      const bool was_empty = word == 0;
      word |= std::uint64_t{1} << (i % 64);
      if (!was_empty) {
        return;
      }
      i /= 64;
    }
  }
  /// Removes a number.
  void erase(std::size_t i) noexcept {
    for (std::size_t level = 0; level < depth_; ++level) {
      std::uint64_t& word = levels_[level][i / 64];
      word &= ~(std::uint64_t{1} << (i % 64));
      if (word != 0) {
        return;
      }
      i /= 64;
    }
  }
  /// True for a member.
  [[nodiscard]] bool contains(std::size_t i) const noexcept {
    return depth_ > 0 && (levels_[0][i / 64] >> (i % 64) & 1U) != 0;
  }
  /// The smallest member.
  [[nodiscard]] std::optional<std::size_t> first() const noexcept {
    if (depth_ == 0 || levels_[depth_ - 1][0] == 0) {
      return std::nullopt;
    }
    std::size_t i = 0;
    for (std::size_t level = depth_; level-- > 0;) {
      i = i * 64 + static_cast<std::size_t>(std::countr_zero(levels_[level][i]));
    }
    return i;
  }
  /// Bytes when all of it has been touched.
  [[nodiscard]] std::int64_t bytes() const noexcept {
    std::int64_t sum = 0;
    for (const auto& level : levels_) {
      sum += level.bytes();
    }
    return sum;
  }

 private:
  /// 64^6 numbers.
  std::array<ReservedArray<std::uint64_t>, 6> levels_;
  std::size_t depth_ = 0;
};

}  // namespace kvpool::block
