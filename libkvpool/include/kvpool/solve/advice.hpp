// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/plan/pool_plan.hpp>
#include <kvpool/solve/length_mix.hpp>

#include <string>
#include <vector>

namespace kvpool {

/// Something about a plan that costs memory or speed and could be otherwise.
struct Advice {
  /// Stable identifier, see `docs/errors.md`: `page_waste`, `latent_replicated`, ...
  std::string id{};
  /// Pool that it concerns, or empty.
  std::string pool{};
  /// What is the matter, with its figures.
  std::string what{};
  /// What to change, in the words of the command line; empty when nothing helps.
  std::string change{};
  /// Bytes of one rank that the change frees, from planning both ways; negative when it costs.
  Bytes frees{};
  /// What the change costs besides, or empty.
  std::string cost{};

  /// Field by field.
  friend bool operator==(const Advice&, const Advice&) = default;
};

/// Advice about a plan, the most bytes first. Every amount comes from planning again with the
/// change made. Pure; a refused plan gets none. What engine profiles say of their own padding is
/// added by who asks them.
/// @param mix lengths of the sequences, for what depends on them; null when they are not known
[[nodiscard]] std::vector<Advice> advise(const Plan& plan, const CapabilityRegistry& registry,
                                         const LengthMix* mix = nullptr);

}  // namespace kvpool
