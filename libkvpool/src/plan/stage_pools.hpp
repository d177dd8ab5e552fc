// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/checked.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/layout/pool_descriptor.hpp>
#include <kvpool/plan/affine_cost.hpp>
#include <kvpool/plan/pool_plan.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvpool {

/// Sequences, and their length in one pool.
struct Load {
  Sequences sequences{};
  Tokens length{};
};

/// The pools of one model on one pipeline stage. One of them takes what the others leave.
struct ModelPools {
  /// Descriptors without slabs.
  std::vector<PoolDescriptor> pools{};
  /// Index of the pool, and of the group in it, that gets the rest of the model's share.
  std::size_t main_pool = 0;
  std::size_t main_group = 0;
  /// True when the main group grows with every token (full attention).
  bool grows = false;
  /// Longest sequence that the model follows.
  Tokens max_len{};
  /// Draft tokens that windows hold beside their own.
  Tokens lookahead{};
};

/// What of a request counts when pools are sized.
struct SizingRules {
  std::int64_t state_slots_per_seq = 1;
  Tokens max_batched_tokens{};
  std::int64_t decode_context = 1;
  /// Set aside the last, partly filled page of every sequence.
  bool reserve_last_pages = false;
};

/// All pools of one pipeline stage, in plan order: target, draft, states.
struct StagePools {
  std::int64_t stage = 0;
  std::int64_t rank = 0;
  std::optional<ModelPools> target{};
  std::optional<ModelPools> draft{};
  std::vector<PoolDescriptor> states{};
  /// Groups that did not find a common slab, for the plan's decisions.
  std::vector<Decision> decisions{};
};

/// Unit in which memory is mapped: asked for, the device's, or 2 MiB.
[[nodiscard]] Bytes granularity_of(const PlanRequest& request);

/// Pools of every stage, without sizes.
[[nodiscard]] Result<std::vector<StagePools>> describe_stages(const PlanRequest& request,
                                                              const Resolution& resolution);

/// The rules that a request and its resolution hold sequences to.
[[nodiscard]] SizingRules sizing_rules(const PlanRequest& request, const Resolution& resolution);

/// Slabs that sequences of several lengths need together of one group.
[[nodiscard]] CheckedInt slabs_needed(const PooledGroup& group, std::span<const Load> loads,
                                      Tokens lookahead, const SizingRules& rules);

/// Slabs that `load` needs of one group.
[[nodiscard]] CheckedInt slabs_needed(const PooledGroup& group, Load load, Tokens lookahead,
                                      const SizingRules& rules);

/// Slabs that `load` needs of a whole pool, every group counted.
[[nodiscard]] CheckedInt slabs_needed(const PoolDescriptor& pool, Load load, Tokens lookahead,
                                      const SizingRules& rules);

/// Slabs and shares of a stage's pools, in plan order; or the bytes that are missing.
struct StageSizes {
  std::vector<Slabs> slabs{};
  std::vector<Bytes> shares{};
  /// More than 0 when the budget does not even hold what does not depend on length.
  Bytes missing{};
};

/// Gives every pool of a stage its slabs: states and windows what the sequences need, the rest
/// split between target and draft so that both hold equally many tokens. A stage that keeps nothing
/// but states fills its budget with further slots.
[[nodiscard]] StageSizes size_stage(const StagePools& stage, Bytes budget, Load planned,
                                    const SizingRules& rules);

/// True when sequences of this load fit into pools of these sizes.
[[nodiscard]] bool stage_fits(const StagePools& stage, const StageSizes& sizes, Load load,
                              const SizingRules& rules);

/// Descriptors with their slabs and the planned partition of shared ones.
[[nodiscard]] std::vector<PoolDescriptor> sized_pools(const StagePools& stage,
                                                      const StageSizes& sizes, Load planned,
                                                      const SizingRules& rules);

/// Tokens that the stage's growing pools hold; nothing when none grows.
[[nodiscard]] std::optional<Tokens> stage_tokens(const StagePools& stage, const StageSizes& sizes,
                                                 Load planned, const SizingRules& rules);

}  // namespace kvpool
