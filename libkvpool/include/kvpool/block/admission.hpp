// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_status.hpp>
#include <kvpool/block/cache_namespace.hpp>
#include <kvpool/block/retention.hpp>
#include <kvpool/core/ids.hpp>
#include <kvpool/core/units.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvpool {

/// Whether a sequence takes pages of draft pools.
enum class DraftMode : std::uint8_t {
  kOff,       ///< no drafter: no pages, and prefix hits do not ask for its cache
  kIfRoom,    ///< with a drafter when its pages are there, else without (a notice in the outcome)
  kRequired,  ///< refused when the drafter's pages are not there
};

/// Why a sequence runs without the drafter although it was asked for.
enum class DraftNotice : std::uint8_t {
  kNone,         ///< it runs with the drafter, or none was asked for or exists
  kNoRoom,       ///< too few pages in a draft pool at admission (`kIfRoom`)
  kBeyondLimit,  ///< longer than the draft model follows; its pages went back
};

/// Tokens to look for in the cache.
struct PrefixQuery {
  /// Token ids, >= 0; placeholders of items as `ItemId::token()`.
  std::span<const std::int32_t> tokens{};
  /// Namespace of the tokens after the public region.
  NamespaceId name_space{};
  /// The first so many tokens, rounded down to prefix blocks, are shared with all namespaces of the
  /// same adapter.
  Tokens public_tokens{};
  /// Whether draft groups must have the prefix, too.
  DraftMode draft = DraftMode::kIfRoom;
};

/// What is cached of a prefix; the rule is written down in docs/block_manager.md.
struct PrefixHit {
  /// Tokens that need not be computed, in every group that the sequence has: `whole_blocks` and
  /// `partial`. Less than the tokens asked for.
  Tokens tokens{};
  /// The part that is shared without a copy, a multiple of the prefix block.
  Tokens whole_blocks{};
  /// Tokens of the next block that are reused by copying its pages.
  Tokens partial{};
  /// Longest equal run in the cache, before it was cut to what all groups have.
  Tokens matched{};

  /// Field by field.
  friend constexpr bool operator==(const PrefixHit&, const PrefixHit&) = default;
};

/// A sequence that asks for admission.
struct AdmitRequest {
  /// The prompt and its namespace.
  PrefixQuery prompt{};
  /// Tokens (hit included) that get slots now; empty for the whole prompt. More than the prompt
  /// reserves for tokens to come. Never less than the hit.
  std::optional<Tokens> reserve{};
  /// Refuse unless this many tokens would fit now, although fewer are reserved; 0 for no such
  /// check.
  Tokens must_fit{};
  /// Tokens of the encoder, for groups of cross-attention. A sequence that has some neither uses
  /// nor feeds the prefix cache: its keys depend on the encoder.
  Tokens encoder_tokens{};
  /// How long its blocks are kept afterwards.
  RetentionPolicy retention{};
  /// False: neither looks up nor leaves anything in the cache.
  bool use_cache = true;
};

/// Answer to an `AdmitRequest`.
struct AdmitOutcome {
  /// `kOk`, or why not; then nothing has changed and `BlockManager::shortage()` has the numbers.
  BlockStatus status = BlockStatus::kInvalid;
  /// The sequence, when admitted.
  SequenceId sequence{};
  /// What it need not compute. Copies that this asks for are in `BlockManager::copies()`.
  PrefixHit hit{};
  /// Whether and why it runs without the drafter.
  DraftNotice draft_notice = DraftNotice::kNone;

  /// Field by field.
  friend constexpr bool operator==(const AdmitOutcome&, const AdmitOutcome&) = default;
};

/// One group's line of a refusal.
struct GroupShortage {
  /// The group.
  GroupId group{};
  /// Pages that the call needed.
  Pages needed{};
  /// Pages that it could have had: free ones, and cached ones that may be evicted.
  Pages available{};
  /// Pages that become free or evictable when `Shortage::settles_at` and earlier epochs complete.
  Pages unsettled{};

  /// Field by field.
  friend constexpr bool operator==(const GroupShortage&, const GroupShortage&) = default;
};

/// Why the last refused call was refused. Valid until the next call that changes the manager.
struct Shortage {
  /// The answer that it explains.
  BlockStatus status = BlockStatus::kOk;
  /// Groups that lack pages; where groups share slabs, all groups of the pool that does.
  std::span<const GroupShortage> groups{};
  /// Epoch whose completion makes the call possible, when it is only a matter of waiting.
  std::optional<Epoch> settles_at{};
  /// Tenant and pages beyond its quota, for `kOverQuota`.
  TenantId tenant{};
  /// Pool of the quota, for `kOverQuota`.
  PoolId pool{};
  /// Pages by which the quota would be exceeded, for `kOverQuota`.
  Pages over_quota{};
};

/// Pages that come back, per pool.
struct PoolPages {
  /// The pool.
  PoolId pool{};
  /// Pages (of any of its groups).
  Pages pages{};

  /// Field by field.
  friend constexpr bool operator==(const PoolPages&, const PoolPages&) = default;
};

/// A sequence without pages: what `suspend` keeps so that `resume` can admit it again.
struct SuspendedSequence {
  /// Its committed tokens, and those of the prompt that were not committed yet.
  std::vector<std::int32_t> tokens{};
  /// Its namespace.
  NamespaceId name_space{};
  /// Its public region.
  Tokens public_tokens{};
  /// Tokens of its encoder.
  Tokens encoder_tokens{};
  /// Whether it had the drafter.
  DraftMode draft = DraftMode::kOff;
  /// Retention of what it generates.
  Retention generated{};
  /// Whether it uses the cache.
  bool use_cache = true;
  /// Tokens that were committed.
  Tokens committed{};
};

/// Answer to `preempt`.
struct PreemptReceipt {
  /// The sequence, for `resume`.
  SuspendedSequence sequence{};
  /// Pages that nobody else holds, per pool: free, or cached and evictable, from `free_at` on.
  std::vector<PoolPages> pages{};
  /// Epoch whose completion makes them available; empty when they are so now.
  std::optional<Epoch> free_at{};
};

/// Answer to `fork`.
struct ForkOutcome {
  /// `kOk`, or why not.
  BlockStatus status = BlockStatus::kInvalid;
  /// The new sequence.
  SequenceId sequence{};
};

/// A pinned prefix: not evicted until it is unpinned.
struct PinId {
  /// Slot in the manager's table.
  std::uint32_t index = 0;
  /// How often the slot has been handed out before.
  std::uint32_t generation = 0;

  /// Equal when slot and generation are.
  friend constexpr bool operator==(PinId, PinId) noexcept = default;
};

/// Answer to `pin`.
struct PinOutcome {
  /// `kOk`, also when nothing of the prefix is cached (`tokens` is 0); `kNoSlot`.
  BlockStatus status = BlockStatus::kInvalid;
  /// The pin.
  PinId pin{};
  /// Tokens that are pinned: whole blocks.
  Tokens tokens{};
};

/// What a tenant holds in a pool.
struct TenantUsage {
  /// Pages that sequences or pins hold.
  Pages live{};
  /// Pages that are cached only.
  Pages cached{};
  /// Most of both together; empty for no limit.
  std::optional<Pages> quota{};

  /// Field by field.
  friend constexpr bool operator==(const TenantUsage&, const TenantUsage&) = default;
};

}  // namespace kvpool
