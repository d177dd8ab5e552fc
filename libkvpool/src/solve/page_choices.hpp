// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The page sizes worth comparing for a deployment, each planned.
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/plan/pool_plan.hpp>
#include <kvpool/solve/length_mix.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvpool {

/// One page size with what was found out about it.
struct PageChoice {
  Tokens page{};
  PlanRequest request{};
  /// Nothing when the request is malformed.
  std::optional<Plan> plan{};
  /// Average sequence of the mix: held and wasted.
  Bytes held{};
  Bytes waste{};
  /// Kernels lost, in number and in words.
  std::size_t lost = 0;
  std::string lost_text{};

  /// True when nothing but bytes speaks against the page: whether the asked sequences fit is not a
  /// matter of the page.
  [[nodiscard]] bool is_usable() const noexcept { return plan.has_value() && !plan->ranks.empty(); }
};

/// Pages of 8 to 256 tokens, ascending. A draft page that was asked for is kept.
[[nodiscard]] std::vector<PageChoice> page_choices(const PlanRequest& request,
                                                   const CapabilityRegistry& registry,
                                                   const LengthMix& mix);

/// The choice with the least waste among those that can be used and lose the fewest kernels, the
/// larger of equals; null when none can.
[[nodiscard]] const PageChoice* least_waste(std::span<const PageChoice> choices);

}  // namespace kvpool
