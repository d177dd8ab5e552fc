// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/affine_cost.hpp>

#include <kvpool/core/checked.hpp>
#include <kvpool/core/size_text.hpp>

#include <fmt/format.h>

namespace kvpool {
namespace {

/// floor(amount * part / whole), exact; 0 when `whole` is 0.
Bytes proportion(Bytes amount, Bytes part, CheckedInt whole) noexcept {
  return Bytes{floor_div(CheckedInt{amount.count()} * part.count(), whole).to_int64().value_or(0)};
}

}  // namespace

BudgetSplit split_budget(Bytes budget, const AffineCost& target, const AffineCost& draft) {
  const CheckedInt fixed = CheckedInt{target.fixed_bytes.count()} + draft.fixed_bytes.count();
  const CheckedInt slopes =
      CheckedInt{target.bytes_per_token.count()} + draft.bytes_per_token.count();
  const bool has_slope = target.bytes_per_token.count() > 0 || draft.bytes_per_token.count() > 0;
  const std::int64_t variable = (CheckedInt{budget.count()} - fixed).saturated();
  if (variable < 0 || (variable == 0 && has_slope)) {
    const CheckedInt least = fixed + (has_slope ? 1 : 0);
    return {.shares = std::nullopt,
            .refusal = Refusal{
                .id = "budget_too_small",
                .what = fmt::format("the KV budget of {} does not exceed the fixed costs of target "
                                    "({}) and draft ({})",
                                    size_text(budget), size_text(target.fixed_bytes),
                                    size_text(draft.fixed_bytes)),
                .missing_bytes = Bytes{(least - budget.count()).saturated()},
                .least_that_works =
                    fmt::format("a KV budget of {}", size_text(Bytes{least.saturated()}))}};
  }
  const Bytes growth = proportion(Bytes{variable}, draft.bytes_per_token, slopes);
  const Bytes share = draft.fixed_bytes + growth;
  return {.shares = BudgetShares{.target = budget - share, .draft = share},
          .refusal = std::nullopt};
}

BudgetShares split_offload_tier(Bytes budget, const AffineCost& target,
                                const AffineCost& draft) noexcept {
  const CheckedInt slopes =
      CheckedInt{target.bytes_per_token.count()} + draft.bytes_per_token.count();
  const Bytes share = proportion(budget, draft.bytes_per_token, slopes);
  return {.target = budget - share, .draft = share};
}

}  // namespace kvpool
