// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/admission.hpp>
#include <kvpool/block/block_manager_counters.hpp>
#include <kvpool/block/block_manager_options.hpp>
#include <kvpool/block/block_status.hpp>
#include <kvpool/block/cache_group.hpp>
#include <kvpool/block/cache_namespace.hpp>
#include <kvpool/block/invariants.hpp>
#include <kvpool/block/page_copy.hpp>
#include <kvpool/block/page_pool.hpp>
#include <kvpool/block/retention.hpp>
#include <kvpool/block/sequence_view.hpp>
#include <kvpool/core/ids.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/layout/pool_descriptor.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// Sequences over all pools of one rank. It knows pages and tokens, not memory: an engine asks it
/// which pages a sequence has, and gives the tables to its kernels.
///
/// Calls of a step (`append`, `commit`, `truncate`, `fork`, `release`, `match_prefix`, `admit`, and
/// the reads) do not allocate, lock, throw or log, and their work does not depend on the size of
/// the pools or the number of cached runs. They answer with a `BlockStatus`; unless it is `kOk`,
/// nothing has changed: no page was taken in any group, and nothing was evicted. Three things are
/// left behind all the same: `counters()` and `shortage()` tell of the refusal; a refused `append`
/// may have let go of pages that the sequence's windows have passed; and where live tokens leave
/// the storage of tokens in too few pieces (`kNoSlot`), cached runs may have gone in vain.
///
/// Terms. Token positions are the common coordinate of all groups. For every sequence
/// reserved >= committed >= computed. A *prefix block* is the least common multiple of the page
/// sizes of all groups that prefixes are shared in (full, window, chunk; of all pools): what the
/// cache keeps and finds. An *epoch* is a step of the engine on the device.
///
/// Threads: one caller at a time; `LockedBlockManager` is a wrapper with a mutex.
class BlockManager {
 public:
  /// A manager of the pools of one rank, with nothing in them.
  /// @param pools descriptors, as planned; copied
  /// @return the manager; `kInvalidArgument` names an option or pool that does not fit the others
  ///   (page sizes without a reasonable common multiple, an interval that is not a multiple of the
  ///   prefix block), `kOutOfRange` for pools beyond 31 bits of units or more than 64 groups,
  ///   `kExhausted` when the host has no memory
  [[nodiscard]] static Result<BlockManager> create(std::span<const PoolDescriptor> pools,
                                                   const BlockManagerOptions& options);

  BlockManager(BlockManager&& other) noexcept;
  BlockManager& operator=(BlockManager&& other) noexcept;
  BlockManager(const BlockManager&) = delete;
  BlockManager& operator=(const BlockManager&) = delete;
  ~BlockManager();

  // What it manages -------------------------------------------------------------------------------

  /// Pools, in the order given.
  [[nodiscard]] std::span<const PoolDescriptor> pools() const noexcept;
  /// Groups of all pools; a `GroupId` is a place in here.
  [[nodiscard]] std::span<const CacheGroup> groups() const noexcept;
  /// What it was set up with.
  [[nodiscard]] const BlockManagerOptions& options() const noexcept;
  /// Tokens of a prefix block.
  [[nodiscard]] Tokens prefix_block() const noexcept;

  // Names (cold: they may allocate) ---------------------------------------------------------------

  /// The tenant of this name. @return `kExhausted` beyond `max_tenants`
  [[nodiscard]] Result<TenantId> intern_tenant(std::string_view name);
  /// The namespace of this key. @return `kInvalidArgument` for an unknown tenant
  [[nodiscard]] Result<NamespaceId> intern_namespace(const NamespaceKey& key);
  /// The item of this content key (a digest that the engine trusts). @return `kExhausted` at 2^31
  [[nodiscard]] Result<ItemId> intern_item(std::string_view key);
  /// Limits what a tenant holds in a pool, live and cached. Over its quota a tenant's own cached
  /// blocks go first, then its calls are refused. What it already has beyond stays until then.
  /// @return `kInvalid` for the public tenant, or an unknown tenant or pool
  BlockStatus set_quota(TenantId tenant, PoolId pool, std::optional<Pages> quota) noexcept;
  /// What a tenant holds in a pool. @pre both exist
  [[nodiscard]] TenantUsage usage(TenantId tenant, PoolId pool) const noexcept;
  /// Names of the tenants; a `TenantId` is a place in here, and the public one's name is empty.
  [[nodiscard]] std::vector<std::string> tenants() const;

  // Time ------------------------------------------------------------------------------------------

  /// Opens the epoch of the step that is being scheduled and says what time it is. Everything that
  /// is given back from now on may still be read in it. Call it before the step's other calls.
  /// @return `kInvalid` unless the epoch is larger than the last one; an earlier `now` counts as
  ///   the last one
  BlockStatus begin_step(Epoch epoch, Instant now) noexcept;
  /// The device has finished all epochs up to this one. @return `kInvalid` for one never opened
  BlockStatus complete_until(Epoch epoch) noexcept;
  /// The latest opened epoch, 0 before the first, and the latest completed one.
  [[nodiscard]] Epoch opened() const noexcept;
  /// See `opened`.
  [[nodiscard]] Epoch completed() const noexcept;

  // Sequences -------------------------------------------------------------------------------------

  /// Looks up the prompt, pins what is found, and takes pages for `reserve` tokens in every group
  /// of every pool, evicting where needed; or changes nothing. The hit counts as committed and
  /// computed; the rest of the prompt is stored, and committed by `commit_prompt`.
  [[nodiscard]] AdmitOutcome admit(const AdmitRequest& request) noexcept;
  /// What `admit` would answer, without a sequence. It is not a use: what is evicted next stays the
  /// same.
  [[nodiscard]] AdmitOutcome probe(const AdmitRequest& request) noexcept;
  /// Longest cached prefix that a sequence could start from. Does not count as use.
  [[nodiscard]] PrefixHit match_prefix(const PrefixQuery& query) const noexcept;

  /// Reserves slots for `count` more tokens in every group. Pages that windows have passed on the
  /// settled basis go back first, and may serve the call.
  BlockStatus append(SequenceId sequence, Tokens count) noexcept;
  /// Makes the next `count` tokens of the prompt final. @pre they are reserved
  BlockStatus commit_prompt(SequenceId sequence, Tokens count) noexcept;
  /// Makes the next tokens final; they follow the prompt. @pre they are reserved, and the prompt is
  /// committed
  BlockStatus commit(SequenceId sequence, std::span<const std::int32_t> tokens) noexcept;
  /// Drops the last `count` reserved tokens, which must not be committed, and gives back exactly
  /// the pages that they alone needed, in every group.
  BlockStatus truncate(SequenceId sequence, Tokens count) noexcept;
  /// A second sequence with the same committed tokens: complete pages are shared, incomplete ones
  /// are copied (`copies()`). What was reserved beyond stays with the first, and so does the rest
  /// of a prompt that is not committed: the fork's prompt and public region (in whole prefix
  /// blocks) end where it begins to go its own way.
  [[nodiscard]] ForkOutcome fork(SequenceId sequence) noexcept;
  /// Ends a sequence. Its complete blocks stay in the cache, unless equal ones are there already.
  BlockStatus release(SequenceId sequence) noexcept;

  /// Ends a sequence and keeps its tokens, for `resume`. Cold: allocates.
  /// @return `kNotFound` for a stale id
  [[nodiscard]] Result<SuspendedSequence> suspend(SequenceId sequence);
  /// Admits a suspended sequence again; its tokens are the prompt. @param reserve as in
  /// `AdmitRequest`
  [[nodiscard]] AdmitOutcome resume(const SuspendedSequence& suspended,
                                    std::optional<Tokens> reserve = {}) noexcept;
  /// Suspends a sequence to make room, and says when its pages become available. Cold: allocates.
  /// @return `kNotFound` for a stale id
  [[nodiscard]] Result<PreemptReceipt> preempt(SequenceId sequence);

  /// Protects the cached prefix of `query`, in whole blocks, from eviction.
  [[nodiscard]] PinOutcome pin(const PrefixQuery& query) noexcept;
  /// Ends a pin.
  BlockStatus unpin(PinId pin) noexcept;

  /// Tells how far a group's cache is valid where the manager cannot know: a drafter that lags, or
  /// a state that the engine has computed again. Equal to the committed tokens, the group follows
  /// them again; less, it stays there until told anew. Blocks that a drafter has not computed are
  /// not cached before it has. After `truncate` a state is valid up to its last snapshot only.
  /// @return `kInvalid` for more than the committed tokens, or a group that is neither
  BlockStatus set_computed(SequenceId sequence, GroupId group, Tokens computed) noexcept;
  /// Lists copies of the sequence's last snapshot over its live state, after which the state is
  /// valid up to `computed`. @return `kInvalid` without a snapshot
  BlockStatus restore_snapshot(SequenceId sequence) noexcept;
  /// Gives back the drafter's pages of a sequence; it goes on without. Blocks that it shares with
  /// another sequence or pin keep theirs, whether or not the others draft: these pages stay as long
  /// as the blocks do.
  BlockStatus stop_drafting(SequenceId sequence) noexcept;

  // Reads -----------------------------------------------------------------------------------------

  /// True for an id that names a live sequence.
  [[nodiscard]] bool is_live(SequenceId sequence) const noexcept;
  /// Lengths; all 0 for a stale id.
  [[nodiscard]] SequenceLengths lengths(SequenceId sequence) const noexcept;
  /// Tokens of a sequence's encoder; 0 for a stale id or a sequence without.
  [[nodiscard]] Tokens encoder_tokens(SequenceId sequence) const noexcept;
  /// Tokens whose cache is valid in a group; 0 for a stale id or a group that the sequence lacks.
  [[nodiscard]] Tokens computed(SequenceId sequence, GroupId group) const noexcept;
  /// A sequence in one group; empty for a stale id.
  [[nodiscard]] GroupView view(SequenceId sequence, GroupId group) const noexcept;
  /// Why a sequence that asked for the drafter runs without.
  [[nodiscard]] DraftNotice draft_notice(SequenceId sequence) const noexcept;
  /// True when the sequence has draft groups.
  [[nodiscard]] bool drafts(SequenceId sequence) const noexcept;
  /// Tokens until the next commit that leaves a snapshot of state, where a step should end; empty
  /// when there is no such group or interval.
  [[nodiscard]] std::optional<Tokens> tokens_to_next_snapshot(SequenceId sequence) const noexcept;
  /// Committed tokens [first, first + out.size()) of a sequence, or of its stored prompt.
  /// @return `kInvalid` when there are fewer
  BlockStatus copy_tokens(SequenceId sequence, Tokens first,
                          std::span<std::int32_t> out) const noexcept;
  /// Number of live sequences.
  [[nodiscard]] Sequences live_sequences() const noexcept;
  /// The live sequence with the smallest index >= `index`; empty when there is none. To visit all.
  [[nodiscard]] std::optional<SequenceId> next_live(std::uint32_t index) const noexcept;

  // Tables ----------------------------------------------------------------------------------------

  /// Length and changed groups of a sequence in one read.
  [[nodiscard]] TableState table_state(SequenceId sequence) const noexcept;
  /// Columns of a group that changed since the last call, and forgets them. One reader at a time: a
  /// sequence belongs to one batch of tables. After admission all held columns have changed.
  [[nodiscard]] BlockRange take_changes(SequenceId sequence, GroupId group) noexcept;
  /// The same with the entries, in one read.
  [[nodiscard]] ChangedColumns take_changed_columns(SequenceId sequence, GroupId group) noexcept;
  /// Marks all held columns as changed, for a sequence that gets another row.
  void mark_all_changed(SequenceId sequence) noexcept;
  /// Copies that calls since the last `clear_copies` asked for, in order.
  [[nodiscard]] std::span<const PageCopy> copies() const noexcept;
  /// Forgets them: the engine has enqueued them in the step of the latest opened epoch.
  void clear_copies() noexcept;

  // Pools and cache -------------------------------------------------------------------------------

  /// Why the last refused call was refused.
  [[nodiscard]] Shortage shortage() const noexcept;
  /// Pages of a group that a call could have now: free ones and those that may be evicted.
  [[nodiscard]] Pages available_pages(GroupId group) const noexcept;
  /// Pages of a group that are cached and may be evicted now.
  [[nodiscard]] Pages evictable_pages(GroupId group) const noexcept;
  /// Pages of a group that sequences or pins hold.
  [[nodiscard]] Pages held_pages(GroupId group) const noexcept;
  /// The pages of a pool. @pre `pool` exists
  [[nodiscard]] const PagePool& page_pool(PoolId pool) const noexcept;
  /// Evicts cached pages until `count` more pages of `group` are free, or none may be evicted.
  /// @return pages of the group that became free
  Pages evict(GroupId group, Pages count) noexcept;
  /// Drops everything that is cached and not held by a sequence or pin.
  void flush_cache() noexcept;
  /// Ends all sequences and pins and empties the cache, as after `create`; ids become stale. Epochs
  /// that are open stay open, and so do the fences. Names stay.
  void reset() noexcept;

  // Diagnosis (cold) ------------------------------------------------------------------------------

  /// Checks the manager against itself. Empty when all is well.
  [[nodiscard]] std::vector<Finding> check_invariants(CheckLevel level) const;
  /// What an id is: live with its lengths, or stale, with the step in which it was released.
  [[nodiscard]] std::string describe(SequenceId sequence) const;
  /// Who has a page, or had it last.
  [[nodiscard]] std::string describe(GroupId group, PageId page) const;
  /// Number that two managers share when they are in the same state; for replays.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;
  /// Bytes of host memory for pages and cached runs, beside the tokens, when all of it is used.
  [[nodiscard]] Bytes metadata_bytes() const noexcept;
  /// All of its tables when all of them are used: `metadata_bytes`, the tokens, and what sequences
  /// have. Address space is reserved for them at creation; memory is taken as it is touched.
  [[nodiscard]] Bytes host_bytes() const noexcept;
  /// Counters since creation.
  [[nodiscard]] const BlockManagerCounters& counters() const noexcept;

 private:
  struct Impl;
  explicit BlockManager(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvpool
