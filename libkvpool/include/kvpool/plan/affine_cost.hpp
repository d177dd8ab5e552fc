// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/decision.hpp>
#include <kvpool/core/units.hpp>

#include <optional>

namespace kvpool {

/// Cost of a sequence of L tokens: `fixed_bytes + bytes_per_token * L` for L >= `from_length`, in
/// whole pages. Below `from_length` a window or chunk is not yet full and costs less.
struct AffineCost {
  /// Bytes that do not depend on the length.
  Bytes fixed_bytes{};
  /// Bytes of one more token (rounded up where a page's padding does not divide evenly).
  Bytes bytes_per_token{};
  /// Length from which on the formula is exact, page rounding aside.
  Tokens from_length{};

  /// Field by field.
  friend bool operator==(const AffineCost&, const AffineCost&) = default;
};

/// Two shares that sum exactly to the budget they were made from.
struct BudgetShares {
  /// Target's bytes.
  Bytes target{};
  /// Draft's bytes.
  Bytes draft{};

  /// Field by field.
  friend bool operator==(const BudgetShares&, const BudgetShares&) = default;
};

/// Outcome of a split: shares, or why there are none.
struct BudgetSplit {
  /// The shares; empty when infeasible.
  std::optional<BudgetShares> shares{};
  /// Why it is infeasible, with the missing bytes.
  std::optional<Refusal> refusal{};
};

/// Splits `budget` so that both pools reach the same token count:
/// draft = I_d + floor((B - I_t - I_d) * S_d / (S_t + S_d)), target = the rest; both slopes 0:
/// draft = I_d. Infeasible when B < I_t + I_d, or equal with a slope above 0.
/// Source: TensorRT-LLM's `_compute_draft_budget_shares`.
[[nodiscard]] BudgetSplit split_budget(Bytes budget, const AffineCost& target,
                                       const AffineCost& draft);

/// Splits a host or disk tier by slope only: fixed costs model memory that lives on the GPU.
[[nodiscard]] BudgetShares split_offload_tier(Bytes budget, const AffineCost& target,
                                              const AffineCost& draft) noexcept;

}  // namespace kvpool
