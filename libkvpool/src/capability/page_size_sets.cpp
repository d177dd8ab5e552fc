// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "capability/page_size_sets.hpp"

#include <kvpool/core/checked.hpp>

#include "capability/kernel_match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <variant>

namespace kvpool {
namespace {

/// Every size up to here is tried; larger ones only when a row names them.
constexpr std::int64_t kLargestTried = 1024;
/// More sizes than this are not listed one by one.
constexpr std::size_t kMostListed = 32;

/// The sizes beyond `kLargestTried` that a rule names.
void add_named_sizes(const PageSizeRule& rule, std::vector<std::int64_t>& sizes) {
  if (const auto* one_of = std::get_if<PageSizeRule::OneOf>(&rule.rule())) {
    sizes.insert(sizes.end(), one_of->sizes.begin(), one_of->sizes.end());
  } else if (const auto* divisors = std::get_if<PageSizeRule::DivisorsOf>(&rule.rule())) {
    for (std::int64_t d = 1; d <= kLargestTried && divisors->n > 0; ++d) {
      if (divisors->n % d == 0) {
        sizes.push_back(divisors->n / d);
      }
    }
  }
}

/// The least common multiple of all "multiples of" rules, if it fits into 64 bits. It is the least
/// size that such rules have in common, and may be a large one.
std::optional<std::int64_t> common_multiple(RowSpan rows) {
  std::int64_t multiple = 1;
  for (const KernelCapability* row : rows) {
    const auto* rule = std::get_if<PageSizeRule::MultiplesOf>(&row->page_sizes.rule());
    if (rule == nullptr || rule->n < 1) {
      continue;
    }
    const auto next = (CheckedInt{multiple / std::gcd(multiple, rule->n)} * rule->n).to_int64();
    if (!next.has_value()) {
      return std::nullopt;
    }
    multiple = *next;
  }
  return multiple;
}

/// The sizes worth trying, ascending.
std::vector<std::int64_t> candidate_sizes(RowSpan rows) {
  std::vector<std::int64_t> sizes(kLargestTried);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (const KernelCapability* row : rows) {
    add_named_sizes(row->page_sizes, sizes);
  }
  if (const auto multiple = common_multiple(rows)) {
    sizes.push_back(*multiple);
  }
  std::ranges::sort(sizes);
  const auto repeated = std::ranges::unique(sizes);
  sizes.erase(repeated.begin(), repeated.end());
  return sizes;
}

}  // namespace

bool all_accept(RowSpan rows, Tokens size) noexcept {
  return std::ranges::all_of(
      rows, [&](const KernelCapability* row) { return row->page_sizes.accepts(size); });
}

std::vector<std::int64_t> common_sizes(RowSpan rows) {
  // What is common to all is among the sizes of any one row: a row that lists its sizes saves
  // trying all others.
  const auto listed = std::ranges::find_if(rows, [](const KernelCapability* row) {
    return std::holds_alternative<PageSizeRule::OneOf>(row->page_sizes.rule());
  });
  std::vector<std::int64_t> sizes =
      listed == rows.end() ? candidate_sizes(rows)
                           : std::get_if<PageSizeRule::OneOf>(&(*listed)->page_sizes.rule())->sizes;
  std::erase_if(sizes, [&](std::int64_t size) { return !all_accept(rows, Tokens{size}); });
  std::ranges::sort(sizes);
  return sizes;
}

std::vector<std::string> describe_sizes(const std::vector<std::int64_t>& sizes, RowSpan rows) {
  if (sizes.size() > kMostListed) {
    // A row that accepts exactly these sizes says it shorter.
    for (const KernelCapability* row : rows) {
      if (common_sizes(RowSpan{&row, 1}) == sizes) {
        return {row->page_sizes.text()};
      }
    }
    if (rows.empty()) {
      return {"any"};
    }
  }
  std::vector<std::string> texts;
  for (const std::int64_t size : sizes) {
    if (texts.size() == kMostListed) {
      texts.push_back(fmt::format("and {} more", sizes.size() - kMostListed));
      break;
    }
    texts.push_back(std::to_string(size));
  }
  return texts;
}

std::int64_t nearest_size(const std::vector<std::int64_t>& sizes, std::int64_t wanted) noexcept {
  wanted = std::max<std::int64_t>(wanted, 1);
  std::int64_t best = sizes.front();
  for (const std::int64_t size : sizes) {
    // Sizes and `wanted` are positive: neither difference can overflow.
    if (std::max(size - wanted, wanted - size) < std::max(best - wanted, wanted - best)) {
      best = size;
    }
  }
  return best;
}

RowsToDrop rows_to_drop(RowSpan rows, std::int64_t wanted) {
  const auto refusals = [&](std::int64_t size) {
    return std::ranges::count_if(
        rows, [&](const KernelCapability* row) { return !row->page_sizes.accepts(Tokens{size}); });
  };
  std::vector<std::int64_t> best;
  auto fewest = static_cast<std::ptrdiff_t>(rows.size());
  for (const std::int64_t size : candidate_sizes(rows)) {
    const auto count = refusals(size);
    if (count < fewest) {
      fewest = count;
      best.clear();
    }
    if (count == fewest) {
      best.push_back(size);
    }
  }
  RowsToDrop answer{.size = nearest_size(best, wanted), .rows = {}};
  std::vector<std::string> names;
  for (const KernelCapability* row : rows) {
    if (!row->page_sizes.accepts(Tokens{answer.size})) {
      names.push_back(row->name);
    }
  }
  answer.rows = join_alternatives(names, "and");
  return answer;
}

}  // namespace kvpool
