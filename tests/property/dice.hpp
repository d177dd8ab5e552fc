// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that are the same on every platform, unlike those of the standard distributions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace kvpool::test {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_{seed} {}

  /// 0 .. n - 1.
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }
  /// True once in `n`.
  bool one_in(std::int64_t n) { return below(n) == 0; }
  /// Between 2^low and 2^high, as many small as large.
  std::int64_t spread(std::int64_t low, std::int64_t high) {
    const std::int64_t base = std::int64_t{1} << (low + below(high - low));
    return base + below(base);
  }
  template <typename T>
  const T& of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(below(static_cast<std::int64_t>(choices.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace kvpool::test
