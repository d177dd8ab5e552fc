// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "solve/probe.hpp"

#include <kvpool/core/checked.hpp>
#include <kvpool/plan/planner.hpp>
#include <kvpool/solve/length_mix.hpp>
#include <kvpool/solve/solver.hpp>

#include <utility>

namespace kvpool {

std::optional<Plan> plan_of(const PlanRequest& request, const CapabilityRegistry& registry) {
  auto plan = make_plan(request, registry);
  return plan.has_value() ? std::optional<Plan>{*std::move(plan)} : std::nullopt;
}

bool fits(const PlanRequest& request, const CapabilityRegistry& registry) {
  const auto plan = make_plan(request, registry);
  return plan.has_value() && plan->fits;
}

BindingConstraint binding_of(const PlanRequest& request, const CapabilityRegistry& registry) {
  const auto plan = make_plan(request, registry);
  if (!plan) {
    return {.id = plan.error().key, .what = plan.error().message};
  }
  if (plan->fits) {
    return {};
  }
  BindingConstraint binding;
  for (const Refusal& refusal : plan->refusals) {
    // A refusal for another reason than bytes outranks them: more memory would not help.
    if (binding.id.empty() || (binding.missing.count() > 0 && refusal.missing_bytes.count() == 0)) {
      binding = {.id = refusal.id, .what = refusal.what, .missing = refusal.missing_bytes};
    }
  }
  const LengthCount asked{.length = plan->resolution.max_model_len,
                          .sequences = plan->resolution.sequences};
  if (binding.missing.count() > 0) {
    if (const auto pool = pool_that_runs_out(*plan, std::span{&asked, 1}); pool.has_value()) {
      binding.pool = pool->pool;
      binding.stage = pool->stage;
    }
  }
  return binding;
}

std::int64_t gpus_of(const Parallelism& parallelism) noexcept {
  return (CheckedInt{parallelism.tensor} * parallelism.pipeline * parallelism.data).saturated();
}

PlanRequest with_parallelism(PlanRequest request, const Parallelism& parallelism) {
  const Parallelism& old = request.parallelism;
  if (old.tensor != parallelism.tensor || old.pipeline != parallelism.pipeline ||
      old.attention_data_parallel != parallelism.attention_data_parallel) {
    request.budget.weights.reset();
  }
  request.parallelism = parallelism;
  return request;
}

Result<std::optional<Bytes>> least_kv_budget(const PlanRequest& request,
                                             const CapabilityRegistry& registry) {
  PlanRequest without = request;
  without.budget.kv_budget = Bytes{0};
  auto plan = make_plan(without, registry);
  if (!plan) {
    return std::move(plan).error();
  }
  if (plan->fits) {
    return std::optional{Bytes{0}};
  }
  const bool only_bytes = std::ranges::all_of(plan->refusals, [](const Refusal& refusal) {
    return refusal.id == "does_not_fit" && !refusal.least_that_works.empty();
  });
  if (!only_bytes || plan->refusals.empty()) {
    return std::optional<Bytes>{};
  }
  const Bytes least = plan->refusals.front().missing_bytes;
  constexpr Bytes kLargest{std::int64_t{1} << 60};
  return least < kLargest ? std::optional{least} : std::optional<Bytes>{};
}

}  // namespace kvpool
