// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/testing/agreement.hpp>

#include <kvpool/core/checked.hpp>
#include <kvpool/core/size_text.hpp>

#include "testing/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace kvpool::testing {
namespace {

using detail::PoolBytes;
using PoolList = std::vector<const PoolDescriptor*>;

void note(std::string& reason, std::string_view text) {
  reason.append(reason.empty() ? "" : "; ").append(text);
}

AgreementReport nothing_to_compare(std::string reason) {
  return {.pools = {{.pool = "plan", .reason = std::move(reason)}}};
}

PoolList all_pools(const PoolPlan& plan) {
  PoolList pools;
  for (const PoolDescriptor& pool : plan.pools) {
    pools.push_back(&pool);
  }
  return pools;
}

/// The pool of this name, else all pools of the role of this name.
PoolList pools_called(const PoolPlan& plan, std::string_view name) {
  PoolList of_role;
  for (const PoolDescriptor& pool : plan.pools) {
    if (pool.name == name) {
      return {&pool};
    }
    if (to_string(pool.role) == name) {
      of_role.push_back(&pool);
    }
  }
  return of_role;
}

std::string unknown_pool(const PoolPlan& plan, std::string_view name) {
  std::string names;
  for (const PoolDescriptor& pool : plan.pools) {
    names += (names.empty() ? "" : ", ") + pool.name;
  }
  return fmt::format("the plan has no pool {}; it has {}", name,
                     names.empty() ? std::string{"none"} : names);
}

/// Pools that are compared together, and what is held for them.
class Comparison {
 public:
  Comparison(std::string name, PoolList pools) : name_{std::move(name)}, pools_{std::move(pools)} {}

  [[nodiscard]] const PoolList& pools() const noexcept { return pools_; }
  [[nodiscard]] bool is_unknown() const noexcept { return pools_.empty(); }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  void hold(Bytes bytes) {
    held_ += bytes.count();
    ++allocations_;
  }
  void object(std::string_view problem) { note(problems_, problem); }

  [[nodiscard]] PoolAgreement result(const PoolPlan& plan) const {
    const PoolBytes size = detail::size_of(pools_);
    const Bytes held{held_.saturated()};
    PoolAgreement agreement{.pool = name_,
                            .charged = held == size.rows ? size.rows : size.charged,
                            .held = held,
                            .reason = problems_};
    agreement.difference = held - agreement.charged;
    if (is_unknown()) {
      note(agreement.reason, unknown_pool(plan, name_));
    } else if (allocations_ == 0) {
      note(agreement.reason, "charged, but not allocated");
    } else if (!size.matches(held)) {
      note(agreement.reason, detail::diagnose(pools_, all_pools(plan), held, allocations_));
    }
    return agreement;
  }

 private:
  std::string name_;
  PoolList pools_;
  CheckedInt held_{0};
  std::size_t allocations_ = 0;
  std::string problems_;
};

/// The comparisons of `check_allocations`: one per pool, or per role where a role was named.
class Comparisons {
 public:
  Comparisons(const PoolPlan& plan, std::span<const Allocation> allocations) : plan_{plan} {
    std::vector<std::string> roles;
    for (const Allocation& allocation : allocations) {
      const PoolList pools = pools_called(plan, allocation.pool);
      if (!pools.empty() && pools.front()->name != allocation.pool) {
        roles.push_back(allocation.pool);
      }
    }
    for (const PoolDescriptor& pool : plan.pools) {
      const std::string role{to_string(pool.role)};
      if (std::ranges::find(roles, role) == roles.end()) {
        list_.emplace_back(pool.name, PoolList{&pool});
      } else if (std::ranges::find(list_, role, &Comparison::name) == list_.end()) {
        list_.emplace_back(role, pools_called(plan, role));
      }
    }
  }

  /// Where an allocation of this name belongs.
  [[nodiscard]] std::size_t index_of(const std::string& name) {
    const PoolList pools = pools_called(plan_, name);
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const PoolList& mine = list_[i].pools();
      const bool mine_has = !pools.empty() && std::ranges::find(mine, pools.front()) != mine.end();
      if (mine_has || (pools.empty() && list_[i].is_unknown() && list_[i].name() == name)) {
        return i;
      }
    }
    list_.emplace_back(name, PoolList{});
    return list_.size() - 1;
  }
  [[nodiscard]] Comparison& at(std::size_t index) { return list_[index]; }

  [[nodiscard]] AgreementReport report() const {
    AgreementReport report;
    for (const Comparison& comparison : list_) {
      report.pools.push_back(comparison.result(plan_));
    }
    return report;
  }

 private:
  const PoolPlan& plan_;
  std::vector<Comparison> list_;
};

/// An allocation whose range has been found sound, and where it belongs.
struct Range {
  std::uintptr_t first = 0;
  std::uintptr_t last = 0;
  std::size_t comparison = 0;
};

/// Checks one allocation by itself; nothing when its range means nothing.
std::optional<Range> check_range(const Allocation& allocation, std::size_t comparison,
                                 Comparison& pool) {
  if (allocation.bytes.count() <= 0) {
    pool.object(fmt::format("an allocation of {} B", allocation.bytes.count()));
    return std::nullopt;
  }
  const auto alignment = static_cast<std::uintptr_t>(kBaseAlignment.count());
  if (allocation.address % alignment != 0) {
    pool.object(fmt::format("base {:#x} is misaligned: not a multiple of {} B", allocation.address,
                            alignment));
  }
  const auto length = static_cast<std::uintptr_t>(allocation.bytes.count());
  if (length - 1 > std::numeric_limits<std::uintptr_t>::max() - allocation.address) {
    pool.object(fmt::format("{} B from {:#x} run past the end of the address space", length,
                            allocation.address));
    return std::nullopt;
  }
  return Range{.first = allocation.address,
               .last = allocation.address + (length - 1),
               .comparison = comparison};
}

/// Objects to every range that starts inside an earlier one.
void check_overlaps(std::vector<Range>& ranges, Comparisons& comparisons) {
  std::ranges::sort(ranges, {}, &Range::first);
  for (std::size_t i = 0, widest = 0; i < ranges.size(); ++i) {
    if (i > 0 && ranges[i].first <= ranges[widest].last) {
      Comparison& one = comparisons.at(ranges[widest].comparison);
      Comparison& other = comparisons.at(ranges[i].comparison);
      const std::string place = fmt::format(" at {:#x}", ranges[i].first);
      one.object("overlaps with an allocation of " + other.name() + place);
      if (&one != &other) {
        other.object("overlaps with an allocation of " + one.name() + place);
      }
    }
    if (ranges[i].last > ranges[widest].last) {
      widest = i;
    }
  }
}

PoolAgreement compare_page_size(const PoolDescriptor& pool, Tokens expected) {
  const PoolDescriptor* const ref = &pool;
  PoolAgreement agreement{
      .pool = pool.name, .charged = pool.charged_bytes(), .held = pool.charged_bytes()};
  const Tokens charged = detail::page_tokens(pool);
  if (charged == Tokens{0}) {
    agreement.reason = "a pool of states has slots and no pages of tokens";
  } else if (charged != expected) {
    const auto size = detail::size_after({&ref, 1}, [expected](PoolShape& shape) {
      return detail::set_page_tokens(shape, expected);
    });
    agreement.held = size.has_value() ? size->charged : Bytes{0};
    agreement.difference = agreement.held - agreement.charged;
    agreement.reason =
        fmt::format("{}-token pages were charged, {}-token pages are expected{}", charged.count(),
                    expected.count(), size.has_value() ? "" : " and have no layout in this pool");
  }
  return agreement;
}

PoolAgreement compare_pool(const PoolPlan& plan, const PoolDescriptor& planned,
                           const PoolSet& pools) {
  const auto id = pools.find(planned.name);
  const auto charge = std::ranges::find(pools.ledger(), planned.name, &PoolCharge::pool);
  if (!id.has_value() || charge == pools.ledger().end()) {
    return {.pool = planned.name,
            .charged = planned.charged_bytes(),
            .difference = Bytes{0} - planned.charged_bytes(),
            .reason = "charged, but not allocated"};
  }
  PoolAgreement agreement{.pool = planned.name,
                          .charged = planned.charged_bytes(),
                          .held = charge->held,
                          .difference = charge->held - planned.charged_bytes()};
  const auto account = std::ranges::find(plan.accounts, planned.name, &PoolAccount::pool);
  if (account != plan.accounts.end() && account->charged != planned.charged_bytes()) {
    note(agreement.reason,
         fmt::format("the plan's account charges {}, its descriptor {}",
                     size_text(account->charged), size_text(planned.charged_bytes())));
  }
  const std::string other = detail::descriptor_difference(planned, pools.descriptor(*id));
  if (!other.empty()) {
    note(agreement.reason, other);
  } else if (charge->held != planned.charged_bytes()) {
    const PoolDescriptor* const ref = &planned;
    note(agreement.reason, detail::diagnose({&ref, 1}, all_pools(plan), charge->held, 1));
  }
  return agreement;
}

/// Runs a check on the smallest rank of a plan.
template <typename Check>
AgreementReport on_smallest_rank(const Plan& plan, const Check& check) {
  if (plan.smallest_rank >= plan.ranks.size()) {
    return nothing_to_compare("the plan has no pools: it was refused");
  }
  return check(plan.ranks[plan.smallest_rank]);
}

}  // namespace

bool AgreementReport::agrees() const noexcept {
  return !pools.empty() && std::ranges::all_of(pools, &std::string::empty, &PoolAgreement::reason);
}

std::string AgreementReport::text() const {
  std::string out;
  for (const PoolAgreement& pool : pools) {
    out += out.empty() ? "" : "\n";
    out += fmt::format("{}: charged {}, held {}", pool.pool, size_text(pool.charged),
                       size_text(pool.held));
    if (pool.difference != Bytes{0}) {
      out += fmt::format(" ({:+} B)", pool.difference.count());
    }
    out += pool.reason.empty() ? ": agrees" : ": " + pool.reason;
  }
  return out;
}

AgreementReport check_cost_equals_allocation(const PoolPlan& plan, const PoolSet& pools) {
  AgreementReport report;
  for (const PoolDescriptor& planned : plan.pools) {
    report.pools.push_back(compare_pool(plan, planned, pools));
  }
  for (const PoolCharge& charge : pools.ledger()) {
    if (std::ranges::find(plan.pools, charge.pool, &PoolDescriptor::name) == plan.pools.end()) {
      report.pools.push_back({.pool = charge.pool,
                              .held = charge.held,
                              .difference = charge.held,
                              .reason = unknown_pool(plan, charge.pool)});
    }
  }
  return report.pools.empty() ? nothing_to_compare("neither plan nor allocation has a pool")
                              : report;
}

AgreementReport check_cost_equals_allocation(const Plan& plan, const PoolSet& pools) {
  return on_smallest_rank(
      plan, [&pools](const PoolPlan& rank) { return check_cost_equals_allocation(rank, pools); });
}

AgreementReport check_page_size(const PoolPlan& plan, std::string_view pool, Tokens expected) {
  AgreementReport report;
  for (const PoolDescriptor* found : pools_called(plan, pool)) {
    report.pools.push_back(compare_page_size(*found, expected));
  }
  if (report.pools.empty()) {
    report.pools.push_back({.pool = std::string{pool}, .reason = unknown_pool(plan, pool)});
  }
  return report;
}

AgreementReport check_page_size(const Plan& plan, std::string_view pool, Tokens expected) {
  return on_smallest_rank(plan, [pool, expected](const PoolPlan& rank) {
    return check_page_size(rank, pool, expected);
  });
}

AgreementReport check_allocations(const PoolPlan& plan, std::span<const Allocation> allocations) {
  Comparisons comparisons{plan, allocations};
  std::vector<Range> ranges;
  for (const Allocation& allocation : allocations) {
    const std::size_t index = comparisons.index_of(allocation.pool);
    Comparison& pool = comparisons.at(index);
    pool.hold(std::max(allocation.bytes, Bytes{0}));
    if (const auto range = check_range(allocation, index, pool)) {
      ranges.push_back(*range);
    }
  }
  check_overlaps(ranges, comparisons);
  AgreementReport report = comparisons.report();
  return report.pools.empty() ? nothing_to_compare("neither plan nor allocation has a pool")
                              : report;
}

AgreementReport check_allocations(const Plan& plan, std::span<const Allocation> allocations) {
  return on_smallest_rank(
      plan, [allocations](const PoolPlan& rank) { return check_allocations(rank, allocations); });
}

}  // namespace kvpool::testing
