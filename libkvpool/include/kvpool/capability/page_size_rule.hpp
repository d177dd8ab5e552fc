// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace kvpool {

/// Which page sizes a kernel accepts.
class PageSizeRule {
 public:
  /// Exactly these sizes.
  struct OneOf {
    /// Ascending.
    std::vector<std::int64_t> sizes{};
    /// Field by field.
    friend bool operator==(const OneOf&, const OneOf&) = default;
  };
  /// Divisors of `n`, 1 excepted.
  struct DivisorsOf {
    /// The number to divide.
    std::int64_t n = 0;
    /// Field by field.
    friend bool operator==(const DivisorsOf&, const DivisorsOf&) = default;
  };
  /// Multiples of `n` up to `max` (0: no upper end).
  struct MultiplesOf {
    /// The number to be a multiple of.
    std::int64_t n = 1;
    /// Largest size, 0 for none.
    std::int64_t max = 0;
    /// Field by field.
    friend bool operator==(const MultiplesOf&, const MultiplesOf&) = default;
  };
  /// Every size.
  struct Any {
    /// Always.
    friend bool operator==(const Any&, const Any&) = default;
  };
  /// The kernel does not read the pool: no condition.
  struct NotRead {
    /// Always.
    friend bool operator==(const NotRead&, const NotRead&) = default;
  };
  /// One of the above.
  using Rule = std::variant<Any, OneOf, DivisorsOf, MultiplesOf, NotRead>;

  /// Accepts every size.
  PageSizeRule() = default;
  /// Accepts what `rule` accepts, one of the alternatives or a `Rule`.
  template <typename Alternative>
    requires std::is_constructible_v<Rule, Alternative>
  explicit PageSizeRule(Alternative&& rule) : rule_{std::forward<Alternative>(rule)} {}

  /// True if pages of this size can be used. Sizes below 1 never can.
  [[nodiscard]] bool accepts(Tokens tokens_per_block) const noexcept;
  /// True unless the kernel does not read the pool.
  [[nodiscard]] bool reads_pool() const noexcept;
  /// For people: `{32, 64}`, `divisors of 128 but 1`, `multiples of 16 up to 256`, `any`,
  /// `does not read the pool`.
  [[nodiscard]] std::string text() const;
  /// The rule behind it.
  [[nodiscard]] const Rule& rule() const noexcept { return rule_; }

  /// Equal rules.
  friend bool operator==(const PageSizeRule&, const PageSizeRule&) = default;

 private:
  Rule rule_;
};

}  // namespace kvpool
