// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/page_size_rule.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kvpool {

bool PageSizeRule::accepts(Tokens tokens_per_block) const noexcept {
  const std::int64_t size = tokens_per_block.count();
  if (size < 1) {
    return false;
  }
  if (const auto* one_of = std::get_if<OneOf>(&rule_)) {
    return std::ranges::find(one_of->sizes, size) != one_of->sizes.end();
  }
  if (const auto* divisors = std::get_if<DivisorsOf>(&rule_)) {
    return size > 1 && divisors->n > 0 && divisors->n % size == 0;
  }
  if (const auto* multiples = std::get_if<MultiplesOf>(&rule_)) {
    return multiples->n > 0 && size % multiples->n == 0 &&
           (multiples->max == 0 || size <= multiples->max);
  }
  return true;
}

bool PageSizeRule::reads_pool() const noexcept { return !std::holds_alternative<NotRead>(rule_); }

std::string PageSizeRule::text() const {
  if (const auto* one_of = std::get_if<OneOf>(&rule_)) {
    std::string sizes = "{";
    for (const std::int64_t size : one_of->sizes) {
      if (sizes.size() > 1) {
        sizes += ", ";
      }
      sizes += std::to_string(size);
    }
    return sizes + "}";
  }
  if (const auto* divisors = std::get_if<DivisorsOf>(&rule_)) {
    return fmt::format("divisors of {} but 1", divisors->n);
  }
  if (const auto* multiples = std::get_if<MultiplesOf>(&rule_)) {
    return multiples->max == 0
               ? fmt::format("multiples of {}", multiples->n)
               : fmt::format("multiples of {} up to {}", multiples->n, multiples->max);
  }
  return reads_pool() ? "any" : "does not read the pool";
}

}  // namespace kvpool
