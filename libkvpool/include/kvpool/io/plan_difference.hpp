// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/plan/pool_plan.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::io {

/// Part of a plan document in which something differs.
enum class PlanArea {
  kOutcome,    ///< whether it fits, and what fits
  kOptions,    ///< what was asked for
  kModel,      ///< target and drafter
  kSettled,    ///< formats, pages and lengths that were settled before anything was allocated
  kDecisions,  ///< what was chosen instead of something else
  kRefusals,   ///< why it does not fit
  kPools,      ///< pools, of every stage where there are several
  kLedger,     ///< the account of the smallest rank
};

/// Stable lower-case name: `outcome`, `options`, `model`, `settled`, `decisions`, `refusals`,
/// `pools`, `ledger`.
[[nodiscard]] std::string_view to_string(PlanArea area) noexcept;

/// One value that differs.
struct PlanDifference {
  /// Where.
  PlanArea area = PlanArea::kOutcome;
  /// Key inside the plan document, with names instead of numbers for entries of lists:
  /// `parallelism.tensor`, `draft/full.num_pages`, `weights.bytes`.
  std::string key{};
  /// The value in the first plan as JSON; nothing when it has none.
  std::optional<std::string> before{};
  /// The value in the second.
  std::optional<std::string> after{};
  /// Second less first, when both are whole numbers.
  std::optional<std::int64_t> change{};

  /// Field by field.
  friend bool operator==(const PlanDifference&, const PlanDifference&) = default;
};

/// Everything in which two plan documents differ, area by area; empty for equal plans. Names and
/// figures of the config that decide nothing (`facts`) are not part of a document.
[[nodiscard]] std::vector<PlanDifference> plan_differences(const Plan& first, const Plan& second);

}  // namespace kvpool::io
