// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What all questions need: does a changed request fit, and if not, why.
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/plan/plan_request.hpp>
#include <kvpool/plan/pool_plan.hpp>
#include <kvpool/solve/answer.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace kvpool {

/// The plan of a request; nothing when the request is malformed.
[[nodiscard]] std::optional<Plan> plan_of(const PlanRequest& request,
                                          const CapabilityRegistry& registry);

/// True when the request can be planned and fits.
[[nodiscard]] bool fits(const PlanRequest& request, const CapabilityRegistry& registry);

/// Why a request does not fit; an empty constraint when it does.
[[nodiscard]] BindingConstraint binding_of(const PlanRequest& request,
                                           const CapabilityRegistry& registry);

/// GPUs of a deployment.
[[nodiscard]] std::int64_t gpus_of(const Parallelism& parallelism) noexcept;

/// The same deployment with another parallelism; figures that were given for one GPU of the old
/// split do not hold there.
[[nodiscard]] PlanRequest with_parallelism(PlanRequest request, const Parallelism& parallelism);

/// Largest x in [1, most] for which `holds`, by doubling and halving; 0 when not even 1 does. What
/// it returns holds, and the next does not.
template <typename Holds>
[[nodiscard]] std::int64_t most_that(std::int64_t most, const Holds& holds) {
  if (most < 1 || !holds(1)) {
    return 0;
  }
  std::int64_t low = 1;
  std::int64_t high = most + 1;
  for (std::int64_t next = 2; next <= most; next *= 2) {
    if (!holds(next)) {
      high = next;
      break;
    }
    low = next;
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (holds(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace kvpool
