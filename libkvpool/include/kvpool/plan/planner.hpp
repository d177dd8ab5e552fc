// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/plan/memory_budget.hpp>
#include <kvpool/plan/plan_request.hpp>
#include <kvpool/plan/pool_plan.hpp>

#include <vector>

namespace kvpool {

/// Settles formats, page sizes and the kind of draft pool; allocates nothing. Pure.
/// @return the resolution, whose `refusals` are not empty when there can be no plan; an `Error`
/// only
///   for a malformed request
[[nodiscard]] Result<Resolution> resolve(const PlanRequest& request,
                                         const CapabilityRegistry& registry);

/// What a request leaves to kvpool on every pipeline stage.
/// @return as `stage_ledgers` of its parts
[[nodiscard]] Result<std::vector<std::vector<LedgerLine>>> stage_ledgers(
    const PlanRequest& request);
/// The same of the stage that has the least left.
[[nodiscard]] Result<std::vector<LedgerLine>> budget_ledger(const PlanRequest& request);

/// Which end of the assumed lines of a ledger a plan reckons with.
enum class BudgetEnd {
  kExpected,  ///< what is expected
  kLow,       ///< every line at its worst: the least that a stage may have
};

/// Plans pools for a settled request by allocating them on simulated memory. Pure: same input, same
/// plan, byte for byte.
[[nodiscard]] Result<Plan> allocate_plan(const PlanRequest& request, const Resolution& resolution,
                                         BudgetEnd end = BudgetEnd::kExpected);

/// `resolve`, then `allocate_plan`.
/// @return the plan, also when it does not fit or was refused (then `refusals` says why and `fits`
///   is false); an `Error` only for a malformed request
[[nodiscard]] Result<Plan> make_plan(const PlanRequest& request,
                                     const CapabilityRegistry& registry);

}  // namespace kvpool
