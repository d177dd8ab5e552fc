// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvpool {

/// What one kernel row said about a page size.
struct Verdict {
  /// Name of the row.
  std::string row = {};
  /// Page sizes it accepts, as text: `{32, 64}`, `divisors of 128 but 1`, `any`.
  std::string accepts = {};
  /// What follows for this choice: `accepts 64`, `refuses 128`, `not read`, `would not run: ...`.
  std::string verdict = {};

  /// Field by field.
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// What a choice costs, as measured or derived.
struct CostOfChoice {
  /// Amount, in `unit`.
  std::int64_t value = 0;
  /// Unit, such as `us_per_step`, `bytes`, `tokens`; empty when nothing is known to be lost.
  std::string unit = {};
  /// Under which conditions the amount was measured or derived.
  std::string conditions = {};

  /// Field by field.
  friend bool operator==(const CostOfChoice&, const CostOfChoice&) = default;
};

/// Something was chosen instead of what was asked for or expected, and the plan still runs.
struct Decision {
  /// Stable identifier, such as `draft_page_size`.
  std::string id = {};
  /// Pool that it concerns, or empty.
  std::string pool = {};
  /// What was chosen.
  std::string chosen = {};
  /// What it stands in for, or empty when nothing else was asked for.
  std::string instead_of = {};
  /// Why.
  std::string reason = {};
  /// What the choice costs.
  CostOfChoice cost = {};
  /// The rows that were asked, when the registry decided.
  std::vector<Verdict> verdicts = {};

  /// Field by field.
  friend bool operator==(const Decision&, const Decision&) = default;
};

/// The plan does not run: what is missing, and the least that would work.
struct Refusal {
  /// Stable identifier, such as `budget_too_small`, `draft_page_size`.
  std::string id = {};
  /// What was refused and why.
  std::string what = {};
  /// Bytes that are missing; 0 when bytes are not what is missing.
  Bytes missing_bytes = {};
  /// Values that would be accepted, as text.
  std::vector<std::string> accepted = {};
  /// The least change that would work, as text.
  std::string least_that_works = {};
  /// The rows that were asked, when the registry decided.
  std::vector<Verdict> verdicts = {};

  /// Field by field.
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

/// Outcome of a page-size question: a size, or none and a refusal. `decision` says how it came
/// about, also when the preferred size was kept.
struct PageSizeChoice {
  /// The size in tokens; empty when refused.
  std::optional<Tokens> tokens_per_block = {};
  /// How the size was chosen. Meaningful when `tokens_per_block` is set.
  Decision decision = {};
  /// Further decisions: how the asked rows were narrowed (`kernel_set`), and the preferred rows
  /// that this choice loses (`preferred_kernel_lost`), each with its cost.
  std::vector<Decision> losses = {};
  /// Why there is none.
  std::optional<Refusal> refusal = {};
};

}  // namespace kvpool
