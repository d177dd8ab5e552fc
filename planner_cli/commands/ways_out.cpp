// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/planner.hpp>

#include "commands/plan_report.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kvpool::cli {
namespace {

/// Larger tensor parallel sizes are not tried.
constexpr std::int64_t kLargestTensorSize = 64;

[[nodiscard]] bool would_fit(const PlanRequest& request, const CapabilityRegistry& registry) {
  const Result<Plan> plan = make_plan(request, registry);
  return plan.has_value() && plan->fits;
}

}  // namespace

void report_ways_out(const Plan& plan, const CapabilityRegistry& registry, Report& report) {
  if (exit_code_of(plan) != ExitCode::kDoesNotFit) {
    return;
  }
  std::vector<std::string> ways;
  PlanRequest request = plan.request;
  if (!request.kv_dtype.has_value() && plan.resolution.target_formats.kv != KvDtype::kFp8E4m3) {
    request.kv_dtype = KvDtype::kFp8E4m3;
    if (would_fit(request, registry)) {
      ways.emplace_back("--kv-cache-dtype fp8");
    }
    request.kv_dtype = plan.request.kv_dtype;
  }
  std::int64_t size = 1;
  while (size <= request.parallelism.tensor) {
    size *= 2;
  }
  for (; size <= kLargestTensorSize; size *= 2) {
    request.parallelism.tensor = size;
    // Figures given for one GPU do not hold for another split.
    request.budget.weights.reset();
    if (would_fit(request, registry)) {
      ways.push_back(
          fmt::format("--tp {}{}", size,
                      plan.request.budget.weights.has_value() ? " (with estimated weights)" : ""));
      break;
    }
  }
  if (!ways.empty()) {
    report.line(fmt::format("each of these would do by itself: {}", fmt::join(ways, "; ")), 4, 4);
  }
}

}  // namespace kvpool::cli
