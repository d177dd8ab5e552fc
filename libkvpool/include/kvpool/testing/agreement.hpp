// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>
#include <kvpool/plan/pool_plan.hpp>
#include <kvpool/pool/allocation.hpp>
#include <kvpool/pool/pool_set.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Checks for the tests of an engine: what was charged is what was allocated. Free of any test
/// framework; `catch2_matchers.hpp` and `gtest_matchers.hpp` are thin layers over it. (Where a test
/// says `using namespace kvpool` and uses GoogleTest, that one's namespace is `::testing`.)
namespace kvpool::testing {

using kvpool::Allocation;

/// What one pool was charged and what is held for it.
struct PoolAgreement {
  /// Name of the pool, or of the role whose pools were compared together.
  std::string pool = {};
  /// Bytes that the plan charges: the pool's rows where exactly those are held, else in whole
  /// granules. 0 for a pool that the plan does not have.
  Bytes charged = {};
  /// Bytes that are held; 0 for a pool that was not allocated.
  Bytes held = {};
  /// `held - charged`; negative when less is held than was charged.
  Bytes difference = {};
  /// What is wrong, with its likely cause; empty when charge and allocation agree.
  std::string reason = {};

  /// Field by field.
  friend bool operator==(const PoolAgreement&, const PoolAgreement&) = default;
};

/// The outcome of a check.
struct AgreementReport {
  /// Pools in plan order, then what is held for pools that the plan does not have. Never empty: a
  /// check that found nothing to compare says so, and disagrees.
  std::vector<PoolAgreement> pools;

  /// True when no pool has a reason against it.
  [[nodiscard]] bool agrees() const noexcept;
  /// For people: a line per pool. No line break at the end.
  [[nodiscard]] std::string text() const;

  /// Field by field.
  friend bool operator==(const AgreementReport&, const AgreementReport&) = default;
};

/// Compares the charges of a plan with what kvpool's own pools hold, and their descriptors.
[[nodiscard]] AgreementReport check_cost_equals_allocation(const PoolPlan& plan,
                                                           const PoolSet& pools);
/// As above, for the smallest rank of a plan.
[[nodiscard]] AgreementReport check_cost_equals_allocation(const Plan& plan, const PoolSet& pools);

/// Checks that every page of a pool has `expected` token slots.
/// @param pool name of a pool, or a role. Pools of states have no page and disagree.
/// @return `charged` is what the plan charges, `held` what the same number of pages of `expected`
///   tokens would take
[[nodiscard]] AgreementReport check_page_size(const PoolPlan& plan, std::string_view pool,
                                              Tokens expected);
/// As above, for the smallest rank of a plan.
[[nodiscard]] AgreementReport check_page_size(const Plan& plan, std::string_view pool,
                                              Tokens expected);

/// Compares the charges of a plan with what an engine's own allocator holds. Several allocations of
/// one pool are summed; a role (`target`, `draft`, `state`) that is no pool's name stands for all
/// pools of that role. A pool agrees when exactly its rows are held, or exactly its rows in whole
/// granules. Everything else disagrees: another size (with the page size, format, number of KV
/// heads or of layers that would explain it, found by laying the pool out again), a pool that is
/// missing or unknown, ranges that overlap, a base that is not a multiple of 256 bytes.
[[nodiscard]] AgreementReport check_allocations(const PoolPlan& plan,
                                                std::span<const Allocation> allocations);
/// As above, for the smallest rank of a plan.
[[nodiscard]] AgreementReport check_allocations(const Plan& plan,
                                                std::span<const Allocation> allocations);

}  // namespace kvpool::testing
