// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/decision.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/layout/pool_descriptor.hpp>
#include <kvpool/plan/affine_cost.hpp>
#include <kvpool/plan/draft_pool_kind.hpp>
#include <kvpool/plan/memory_budget.hpp>
#include <kvpool/plan/plan_request.hpp>
#include <kvpool/pool/pool_set.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// Where a pool's share of the budget went:
/// share = pages + slab_waste + reserved + loss, and charged <= share.
struct PoolAccount {
  /// Name of the pool.
  std::string pool{};
  /// Bytes of the budget that the pool was given.
  Bytes share{};
  /// Usable pages.
  Bytes pages{};
  /// Bytes in usable slabs that no page covers.
  Bytes slab_waste{};
  /// Reserved pages.
  Bytes reserved{};
  /// What is left of the share: less than one slab plus one granule.
  Bytes loss{};
  /// Bytes that the allocation charged, in whole granules.
  Bytes charged{};

  /// Field by field.
  friend bool operator==(const PoolAccount&, const PoolAccount&) = default;
};

/// The pools of one rank: what `PoolSet::create` allocates.
struct PoolPlan {
  /// Pipeline stage.
  std::int64_t stage = 0;
  /// Global rank of the stage's first rank; the others of a stage are like it.
  std::int64_t rank = 0;
  /// What kvpool owns on this rank; stages differ where they load different weights.
  Bytes budget{};
  /// Workspace of the bundled kernels, in whole granules.
  Bytes workspace{};
  /// The pools.
  std::vector<PoolDescriptor> pools{};
  /// Their accounts, in the same order.
  std::vector<PoolAccount> accounts{};

  /// The pool of this name, or null.
  [[nodiscard]] const PoolDescriptor* find(std::string_view pool) const noexcept;

  /// Field by field.
  friend bool operator==(const PoolPlan&, const PoolPlan&) = default;
};

/// What the planned pools hold; all 0 when the budget is too small for any. A refusal says what a
/// new plan, for less, would hold: its states and windows would be smaller.
struct Capacity {
  /// Tokens of the pool that runs out first, over all sequences.
  Tokens tokens{};
  /// Sequences of `max_model_len` at the same time; never more than were planned for where states
  /// or windows are sized by their number.
  Sequences sequences{};
  /// Longest length at which the asked number of sequences fits, up to the asked length.
  Tokens max_len{};

  /// Field by field.
  friend bool operator==(const Capacity&, const Capacity&) = default;
};

/// What the registry and the formats' rules settled before anything was allocated.
struct Resolution {
  /// Page of the target pool.
  Tokens target_page{};
  /// Page of the draft pool, when there is one.
  std::optional<Tokens> draft_page{};
  /// Where the drafter's cache lives.
  DraftPoolKind draft_pool = DraftPoolKind::kNone;
  /// Formats of the target's caches.
  CacheFormats target_formats{};
  /// Formats of the drafter's caches.
  CacheFormats draft_formats{};
  /// Sequences planned for.
  Sequences sequences{};
  /// Longest sequence planned for.
  Tokens max_model_len{};
  /// Longest sequence that the drafter follows, when there is one.
  Tokens draft_max_len{};
  /// Draft tokens per step.
  Tokens draft_tokens{};
  /// Slots of recurrent state per sequence: its own, and its snapshots.
  std::int64_t state_slots_per_seq = 1;
  /// Workspace of the bundled kernels on a rank, which share it: the most that any of them needs.
  /// 0 for other kernel sets: engines bring their own.
  Bytes workspace{};
  /// Choices that stand in for others.
  std::vector<Decision> decisions{};
  /// Why there is no plan.
  std::vector<Refusal> refusals{};

  /// Field by field.
  friend bool operator==(const Resolution&, const Resolution&) = default;
};

/// The answer to a `PlanRequest`.
struct Plan {
  /// What was asked.
  PlanRequest request{};
  /// What was settled before anything was allocated.
  Resolution resolution{};
  /// Every choice: the resolution's, then the allocation's.
  std::vector<Decision> decisions{};
  /// Every reason why there is no plan or it does not fit: the resolution's, then the allocation's.
  std::vector<Refusal> refusals{};
  /// True when the asked sequences fit at the asked length.
  bool fits = false;
  /// Account of the smallest rank, from the device's total to the last byte of loss; of a plan that
  /// was refused, of the stage that lacks most.
  std::vector<LedgerLine> ledger{};
  /// Pipeline stage that the ledger is about.
  std::int64_t ledger_stage = 0;
  /// One entry per pipeline stage.
  std::vector<PoolPlan> ranks{};
  /// Index into `ranks` of the one that holds the fewest tokens; see `smallest()`.
  std::size_t smallest_rank = 0;
  /// What fits.
  Capacity capacity{};
  /// What a private arena would take instead of the draft pool, for comparison.
  std::optional<Bytes> private_arena{};

  /// The pools of the stage that holds the fewest tokens; null when the plan was refused before
  /// anything could be allocated.
  [[nodiscard]] const PoolPlan* smallest() const noexcept;
  /// The first decision of this id, or null.
  [[nodiscard]] const Decision* find_decision(std::string_view id) const noexcept;
  /// The ledger's line of this name, or null.
  [[nodiscard]] const LedgerLine* find_line(std::string_view name) const noexcept;

  /// Field by field.
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Allocates the pools of one rank: `PoolSet::create` over `rank.pools`.
[[nodiscard]] Result<PoolSet> create_pools(const PoolPlan& rank, AnyPageMemory memory,
                                           PoolSetOptions options = {});

/// What a sequence holds in a pool besides what its own length asks for.
struct SequenceRules {
  /// Draft tokens that windows hold beside their own.
  Tokens lookahead{};
  /// Slots of recurrent state: its own, and its snapshots.
  std::int64_t state_slots = 1;
  /// Ranks that its tokens are dealt out over.
  std::int64_t decode_context = 1;
  /// Longest length that the pool's model follows, when sequences may be longer.
  std::optional<Tokens> max_len{};

  /// Field by field.
  friend bool operator==(const SequenceRules&, const SequenceRules&) = default;
};

/// The rules that a plan holds its sequences to in the pools of one role.
[[nodiscard]] SequenceRules sequence_rules(const Plan& plan, PoolRole role);

/// Cost of one sequence in one group of a pool, on one rank.
[[nodiscard]] AffineCost sequence_cost(const PooledGroup& group,
                                       const SequenceRules& rules) noexcept;

/// One size for all ranks: for every pool the fewest pages over `ranks` that have it. A pool that
/// only some stages have keeps its size.
/// @return one plan per given rank, shrunk; `kInvalidArgument` when `ranks` is empty or pools of
/// one
///   name differ in page size
[[nodiscard]] Result<std::vector<PoolPlan>> common_plan(std::span<const PoolPlan> ranks);

}  // namespace kvpool
