// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/capability_registry.hpp>

#include "core/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace kvpool {
namespace {

/// Larger page sizes are taken for mistakes.
constexpr std::int64_t kLargestPage = std::int64_t{1} << 20;

bool is_page(std::int64_t size) { return size >= 1 && size <= kLargestPage; }

/// What is wrong with a rule, or nothing.
std::string rule_fault(const PageSizeRule& page_sizes) {
  const PageSizeRule::Rule& rule = page_sizes.rule();
  if (const auto* one_of = std::get_if<PageSizeRule::OneOf>(&rule)) {
    if (one_of->sizes.empty()) {
      return "lists no page size";
    }
    for (const std::int64_t size : one_of->sizes) {
      if (!is_page(size)) {
        return fmt::format("lists a page of {} tokens: sizes go from 1 to {}", size,
                           format_count(kLargestPage));
      }
    }
    if (std::ranges::adjacent_find(one_of->sizes, std::ranges::greater_equal{}) !=
        one_of->sizes.end()) {
      return "lists its page sizes out of order or twice: they ascend";
    }
  }
  if (const auto* divisors = std::get_if<PageSizeRule::DivisorsOf>(&rule)) {
    if (divisors->n < 2 || !is_page(divisors->n)) {
      return fmt::format("accepts divisors of {}: the number goes from 2 to {}", divisors->n,
                         format_count(kLargestPage));
    }
  }
  if (const auto* multiples = std::get_if<PageSizeRule::MultiplesOf>(&rule)) {
    if (!is_page(multiples->n)) {
      return fmt::format("accepts multiples of {}: the number goes from 1 to {}", multiples->n,
                         format_count(kLargestPage));
    }
    if (multiples->max != 0 && (multiples->max < multiples->n || !is_page(multiples->max))) {
      return fmt::format(
          "accepts multiples of {} up to {}: the end is 0 (none) or goes from {} "
          "to {}",
          multiples->n, multiples->max, multiples->n, format_count(kLargestPage));
    }
  }
  return {};
}

/// What is wrong with a row's limits, or nothing.
std::string limits_fault(const KernelLimits& limits) {
  const auto below_one = [](std::int64_t value) { return value < 1; };
  if (std::ranges::any_of(limits.head_dims, below_one) ||
      std::ranges::any_of(limits.excluded_head_dims, below_one)) {
    return "has a head dim below 1";
  }
  const std::array<std::pair<std::string_view, std::optional<std::int64_t>>, 5> numbers = {{
      {"exact_head_ratio", limits.exact_head_ratio},
      {"max_head_ratio", limits.max_head_ratio},
      {"max_batch", limits.max_batch},
      {"max_query_tokens", limits.max_query_tokens},
      {"max_context",
       limits.max_context.has_value() ? std::optional{limits.max_context->count()} : std::nullopt},
  }};
  for (const auto& [name, value] : numbers) {
    if (value.has_value() && below_one(*value)) {
      return fmt::format("has {} = {}: it starts at 1", name, *value);
    }
  }
  return {};
}

/// A kernel for one query token after the other serves autoregressive users, one for blocks serves
/// drafters; append and copy serve anyone.
bool fits_role(KernelRole role, PoolUser user) {
  switch (role) {
    case KernelRole::kTargetDecode:
    case KernelRole::kTargetPrefill: return user != PoolUser::kDflash && user != PoolUser::kDspark;
    case KernelRole::kDraftBlock: return user != PoolUser::kTarget;
    case KernelRole::kAppend:
    case KernelRole::kCopy: return true;
  }
  return false;
}

/// What is wrong with whom a row serves, or nothing.
std::string serves_fault(const KernelCapability& row) {
  if (row.serves.empty()) {
    return "serves nobody: say target, mtp, eagle3, dflash, dspark, draft_target or pard";
  }
  for (const PoolUser user : row.serves) {
    if (!fits_role(row.role, user)) {
      return fmt::format("has the role {} and serves {}: give it a row of its own with the role {}",
                         to_string(row.role), to_string(user),
                         row.role == KernelRole::kDraftBlock ? "target_decode" : "draft_block");
    }
  }
  return {};
}

}  // namespace

std::string_view to_string(KernelSet set) noexcept {
  switch (set) {
    case KernelSet::kTrtllm: return "trtllm";
    case KernelSet::kExact: return "exact";
    case KernelSet::kKvpool: return "kvpool";
  }
  return "unknown";
}

std::optional<KernelSet> parse_kernel_set(std::string_view text) noexcept {
  for (const KernelSet set : {KernelSet::kTrtllm, KernelSet::kExact, KernelSet::kKvpool}) {
    if (text == to_string(set)) {
      return set;
    }
  }
  return std::nullopt;
}

CapabilityRegistry CapabilityRegistry::with_known_kernels() {
  CapabilityRegistry registry;
  const auto known = known_kernels();
  registry.rows_.assign(known.begin(), known.end());
  return registry;
}

Result<void> CapabilityRegistry::add(KernelCapability row) {
  const std::string shown = format_excerpt(row.name);
  const auto refuse = [&](std::string_view key, std::string_view why) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("kernel row '{}' {}", shown, why),
                 .key = std::string{key},
                 .value = shown};
  };
  if (row.name.empty()) {
    return refuse("name", "has no name");
  }
  for (const KernelCapability& other : rows_) {
    if (other.name == row.name) {
      return refuse("name", fmt::format("exists already (from {}): give it another name",
                                        format_excerpt(other.provider.empty() ? "a row without "
                                                                                "provider"
                                                                              : other.provider)));
    }
  }
  if (!row.kernel_set.empty() && row.kernel_set != to_string(KernelSet::kTrtllm) &&
      row.kernel_set != to_string(KernelSet::kKvpool)) {
    return refuse("kernel_set", fmt::format("belongs to the kernel set '{}': say trtllm or kvpool, "
                                            "or nothing for every set",
                                            format_excerpt(row.kernel_set)));
  }
  if (const std::string fault = serves_fault(row); !fault.empty()) {
    return refuse("serves", fault);
  }
  if (const std::string fault = rule_fault(row.page_sizes); !fault.empty()) {
    return refuse("page_sizes", fault);
  }
  if (const std::string fault = limits_fault(row.limits); !fault.empty()) {
    return refuse("limits", fault);
  }
  rows_.push_back(std::move(row));
  return {};
}

}  // namespace kvpool
