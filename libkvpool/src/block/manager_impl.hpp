// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>

#include "block/manager_tables.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvpool {

using block::kMaxGroups;
using block::kTokenRoom;

/// Inside of the block manager. A page is *held* (by a sequence or pin), *idle* (cached, may be
/// evicted) or *cooling* (as idle, but an epoch that may read it is open).
///
/// Pages of full groups are held and evicted with the runs that they belong to. Pages of the other
/// groups ("independent": windows, chunks, encoder tokens, states) count their holders one by one,
/// and can go while their run stays, which leaves a hole.
struct BlockManager::Impl : block::ManagerTables {
  using Cursor = block::Cursor;
  using Run = block::Run;

  using Group = block::ManagedGroup;
  using Meta = block::PageMeta;
  using Pool = block::ManagedPool;
  using Hot = block::HotSequence;
  using Cold = block::ColdSequence;
  using Cell = block::SequenceCell;
  using Pin = block::PinnedPrefix;
  using Tenant = block::TenantAccount;
  using Need = block::PageNeed;
  using Match = block::PrefixMatch;
  using Segment = block::TokenSegment;

  using ManagerTables::ManagerTables;

  // manager_create.cpp
  Result<void> set_up(std::span<const PoolDescriptor> pool_descriptors);

  // Small helpers ---------------------------------------------------------------------------------
  [[nodiscard]] Hot* find(SequenceId id) noexcept {
    return id.index < hot.size() && hot[id.index].generation == id.generation &&
                   id.generation != kNil
               ? &hot[id.index]
               : nullptr;
  }
  [[nodiscard]] const Hot* find(SequenceId id) const noexcept {
    return const_cast<Impl*>(this)->find(id);  // NOLINT: reads only
  }
  [[nodiscard]] Cell& cell(std::size_t sequence, std::size_t group) noexcept {
    return cells[sequence * groups.size() + group];
  }
  [[nodiscard]] const Cell& cell(std::size_t sequence, std::size_t group) const noexcept {
    return cells[sequence * groups.size() + group];
  }
  [[nodiscard]] std::int32_t* row(std::size_t sequence, std::size_t group) noexcept {
    return groups[group].rows.data() + sequence * groups[group].columns;
  }
  [[nodiscard]] const std::int32_t* row(std::size_t sequence, std::size_t group) const noexcept {
    return groups[group].rows.data() + sequence * groups[group].columns;
  }
  [[nodiscard]] Tenant& tenant_of(std::size_t tenant, std::int32_t pool) noexcept {
    return tenants[tenant * pools.size() + static_cast<std::size_t>(pool)];
  }
  [[nodiscard]] Meta& meta_of(const Group& group, std::int32_t page) noexcept {
    return pools[static_cast<std::size_t>(group.pool)]
        .meta[group.pages->slot_of(group.group_in_pool, page)];
  }
  /// A page of an independent group has been handed out.
  void begin_meta(std::size_t group, std::int32_t page, std::size_t tenant) noexcept {
    Meta& meta = meta_of(groups[group], page);
    meta = {};
    meta.holders = 1;
    meta.tenant = static_cast<std::uint16_t>(tenant);
  }
  [[nodiscard]] bool is_done(std::uint32_t epoch) const noexcept {
    return static_cast<std::int32_t>(epoch - static_cast<std::uint32_t>(completed)) <= 0;
  }
  [[nodiscard]] std::int64_t floor_block(std::int64_t tokens) const noexcept {
    return by_block.floor(tokens) * block_tokens;
  }
  /// Committed tokens that nothing in flight writes.
  [[nodiscard]] std::int32_t computed(const Hot& of) const noexcept {
    return is_done(of.last_epoch)       ? of.committed
           : is_done(of.previous_epoch) ? of.previous
                                        : of.settled;
  }
  /// Calls `f(group index)` for every bit of `mask`.
  template <typename F>
  static void each(std::uint64_t mask, F&& f) noexcept {
    for (; mask != 0; mask &= mask - 1) {
      f(static_cast<std::size_t>(std::countr_zero(mask)));
    }
  }
  /// Tenant that a sequence's page at a token is charged to.
  [[nodiscard]] std::size_t charged_to(const Cold& of, std::int64_t token) const noexcept {
    return token < of.public_tokens ? 0 : of.tenant;
  }
  /// First block that a window or chunk still needs when tokens up to `length` are computed.
  [[nodiscard]] static std::int64_t first_needed(const Group& group, std::int64_t length) noexcept {
    if (group.kind == GroupKind::kSlidingWindow) {
      return length < group.extent ? 0 : group.by_page.floor(length - group.extent + 1);
    }
    return group.kind == GroupKind::kChunked
               ? group.by_page.floor(group.by_extent.floor(length) * group.extent)
               : 0;
  }

  // manager_pages.cpp: pages in and out
  // -------------------------------------------------------------
  /// Whether the need can be met, without changing anything; fills `shortage`.
  [[nodiscard]] BlockStatus check(const Need& need) noexcept;
  /// Evicts what the tenant has too much of, and lets `take` begin. @pre check(need) is `kOk`
  void prepare(const Need& need) noexcept;
  /// A page, charged to a tenant; evicts. @pre it was counted in the need that was prepared
  /// @param plenty every page of the present call could have a slab of its own that is free
  std::int32_t take(std::size_t group, std::size_t tenant, bool plenty = false) noexcept;
  /// A page if one can be had, for what a sequence can do without; -1 otherwise.
  std::int32_t take_optional(std::size_t group, std::size_t tenant) noexcept;
  /// Gives back a page that nobody else holds and that is not in a published run.
  void give_back(std::size_t group, std::int32_t page, std::size_t tenant, bool settled) noexcept;
  /// One page of the group out of the cache becomes free. False when none may be evicted.
  bool evict_one(std::size_t group) noexcept;
  bool evict_own(std::size_t tenant, std::size_t pool) noexcept;
  void reclaim_slab(std::size_t pool) noexcept;
  /// A cached page of an independent group becomes free.
  void drop_page(std::size_t group, std::int32_t page) noexcept;
  void hold(std::size_t group, std::int32_t page) noexcept;
  /// One holder less. `passed`: its window moved on, on the settled basis.
  void let_go(std::size_t group, std::int32_t page, bool passed) noexcept;
  void list_page(std::size_t group, std::uint32_t slot, std::size_t level) noexcept;
  void unlist_page(std::size_t group, std::int32_t page) noexcept;
  void settle() noexcept;
  [[nodiscard]] bool gate_admits(const Need& need) noexcept;
  [[nodiscard]] std::int64_t available(std::size_t group) const noexcept;
  void refuse(BlockStatus status) noexcept;

  // manager_cache.cpp: runs -----------------------------------------------------------------------
  void lock(std::uint32_t run) noexcept;
  void unlock(std::uint32_t run) noexcept;
  /// Counts the pages of `blocks` blocks of a run from one state to another.
  void count_pages(std::uint32_t run, std::uint32_t first, std::uint32_t blocks, std::int64_t idle,
                   std::int64_t cooling) noexcept;
  void list_run(std::uint32_t run, bool front) noexcept;
  void unlist_run(std::uint32_t run) noexcept;
  [[nodiscard]] std::size_t level_of(const Run& run) const noexcept {
    return std::size_t{1} + run.priority;
  }
  void expire(std::uint32_t run) noexcept;
  /// Frees the last block of a run that nobody holds; the run, too, when it was the only one.
  void drop_block(std::uint32_t run) noexcept;
  void drop_below(std::uint32_t run) noexcept;
  void remove_run(std::uint32_t run) noexcept;
  /// Cuts a run and keeps lists and owner in order. @pre a run is free
  std::uint32_t split(std::uint32_t run, std::uint32_t blocks) noexcept;
  /// The run that ends at the cursor, cut where it does not. @pre a run is free
  std::uint32_t end_at(Cursor cursor) noexcept;
  /// Evicts whole runs until so many runs and units are free.
  bool make_room(std::uint32_t run_count, std::uint32_t units) noexcept;
  /// Runs with room for `least` units of tokens in as many pieces as it takes, chained by
  /// `list.next`, and for `wish` more where they come with the last piece. Leaves `spare` runs
  /// free. `evicts`: where units or runs are missing. `kNil` when there is no room even so.
  [[nodiscard]] std::uint32_t allot(std::uint32_t least, std::uint32_t wish, std::uint32_t spare,
                                    bool evicts) noexcept;
  [[nodiscard]] std::uint32_t allot_beside(const Match& match, std::uint32_t least,
                                           std::uint32_t wish, std::uint32_t spare) noexcept;
  /// Gives back what `allot` returned, or the rest of such a chain.
  void free_chain(std::uint32_t first) noexcept;
  /// Whether `allot` has the units: `kOk`, `kUnsettled` or `kNoSlot`.
  /// @param kept units of idle runs that have to stay, and of cooling ones
  [[nodiscard]] BlockStatus check_units(std::uint32_t least, std::int64_t kept,
                                        std::int64_t kept_cooling) noexcept;
  [[nodiscard]] Match match(const PrefixQuery& query, bool draft) const noexcept;
  [[nodiscard]] std::int64_t clip(Cursor at, std::int64_t length, std::int64_t limit,
                                  bool draft) const noexcept;
  [[nodiscard]] Cursor seek(Cursor at, std::int64_t length, std::int64_t target) const noexcept;
  /// Calls `f(group, column, page)` for what a sequence that starts at `at` (`length` tokens into a
  /// path) holds one by one: pages in its windows and chunks, and snapshots.
  template <typename F>
  void for_each_window_page(Cursor at, std::int64_t length, bool draft, F&& f) noexcept {
    for (std::size_t g = 0; g < groups.size() && length != 0; ++g) {
      const Group& group = groups[g];
      if (!group.independent || group.per_block == 0 || (group.draft && !draft)) {
        continue;
      }
      if (group.kind == GroupKind::kState) {
        f(g, std::int64_t{0}, group.by_unit[std::size_t{runs[at.run].start} + at.blocks - 1]);
        continue;
      }
      std::uint32_t run = at.run;
      std::int64_t base = length - at.blocks * block_tokens;
      for (std::int64_t b = length / group.page - 1; b >= first_needed(group, length); --b) {
        while (b * group.page < base) {
          run = runs[run].parent;
          base -= runs[run].blocks * block_tokens;
        }
        const std::int64_t place = static_cast<std::int64_t>(runs[run].start) * group.per_block +
                                   (b * group.page - base) / group.page;
        f(g, b, group.by_unit[static_cast<std::size_t>(place)]);
      }
    }
  }
  /// Records complete blocks of a sequence in its runs, and publishes them.
  void complete_blocks(std::size_t sequence) noexcept;
  void record(std::size_t sequence, std::uint32_t run, std::int64_t base, std::uint32_t first,
              std::uint32_t last) noexcept;
  void keep_pages(std::uint32_t run, std::uint32_t first, std::uint32_t last) noexcept;
  /// Cuts the open run of a sequence behind its complete blocks.
  bool close_open_run(std::size_t sequence) noexcept;
  void fold_detached(std::size_t sequence, std::uint32_t top) noexcept;
  void drop_detached(std::uint32_t run, std::uint32_t blocks) noexcept;
  void trim(std::uint32_t run) noexcept;

  // manager_sequences.cpp -------------------------------------------------------------------------
  [[nodiscard]] bool is_valid(const AdmitRequest& request) const noexcept;
  /// Its tokens are not looked at: unknown ones match nothing.
  [[nodiscard]] bool is_valid(const PrefixQuery& query) const noexcept;
  /// No token below those of items that have names.
  [[nodiscard]] bool are_known(std::span<const std::int32_t> tokens) const noexcept;
  [[nodiscard]] AdmitOutcome admit(const AdmitRequest& request, bool only_probe) noexcept;
  [[nodiscard]] BlockStatus try_admit(const AdmitRequest& request, const Match& match, bool draft,
                                      std::int64_t reserve, Need& need) noexcept;
  SequenceId start(const AdmitRequest& request, const Match& match, bool draft,
                   std::int64_t reserve, const Need& need, std::uint32_t room,
                   DraftNotice notice) noexcept;
  [[nodiscard]] Segment segment_at(const Cold& of, const RetentionPolicy& retention,
                                   std::int64_t token) const noexcept;
  /// Adds a run for tokens to come. @pre a run is free; the extent is not empty
  std::uint32_t add_run(std::size_t sequence, const Segment& segment, block::Extent extent,
                        std::uint32_t parent) noexcept;
  /// Units that a sequence of `length` tokens gets for more: the longer it is, the more, so that it
  /// has few runs.
  [[nodiscard]] std::int64_t token_room(std::int64_t length) const noexcept {
    return by_block.floor(std::max(kTokenRoom, length / 4)) + 1;
  }
  bool grow_tail(std::size_t sequence) noexcept;
  void take_columns(std::size_t sequence, std::size_t group, std::int64_t end,
                    bool plenty = false) noexcept;
  void mark_changed(std::size_t sequence, std::size_t group, std::int64_t first,
                    std::int64_t end) noexcept;
  /// Gives back the pages behind the reserved tokens.
  void free_behind(std::size_t sequence) noexcept;
  void set_boundary(std::size_t sequence) noexcept;
  void set_event(std::size_t sequence) noexcept;
  /// Before the committed tokens change: they are counted with the opened epoch.
  void note_commit(Hot& of) const noexcept {
    const auto epoch = static_cast<std::uint32_t>(opened);
    if (of.last_epoch == epoch) {
      return;
    }
    if (is_done(of.last_epoch)) {
      of.settled = of.committed;
    } else if (is_done(of.previous_epoch)) {
      of.settled = of.previous;
    }
    // Of two epochs in flight the older one is counted with the newer.
    of.previous = of.committed;
    of.previous_epoch = of.last_epoch;
    of.last_epoch = epoch;
  }
  /// Lets go of pages that windows and chunks have passed; true when there were any due.
  bool advance_windows(std::size_t sequence) noexcept;
  void take_snapshots(std::size_t sequence) noexcept;
  /// Gives back the drafter's pages that are the sequence's own.
  void leave_draft(std::size_t sequence) noexcept;
  void drop_draft(std::size_t sequence, DraftNotice notice) noexcept;
  void free_columns(std::size_t sequence, std::size_t group, std::int64_t first) noexcept;
  void add_copy(std::size_t group, std::int32_t source, std::int32_t destination, CopyOrder order,
                CopyReason reason) noexcept;
  [[nodiscard]] BlockStatus append_slow(std::size_t sequence, std::int64_t reserved) noexcept;
  [[nodiscard]] BlockStatus commit(std::size_t sequence,
                                   std::span<const std::int32_t> tokens) noexcept;
  [[nodiscard]] BlockStatus commit_slow(std::size_t sequence,
                                        std::span<const std::int32_t> tokens) noexcept;
  void after_commit(std::size_t sequence, std::int64_t committed) noexcept;
  [[nodiscard]] ForkOutcome fork(std::size_t sequence) noexcept;
  void release(std::size_t sequence) noexcept;
  void read_tokens(std::size_t sequence, std::int64_t first,
                   std::span<std::int32_t> out) const noexcept;
  void flush() noexcept;
  [[nodiscard]] PinOutcome pin(const PrefixQuery& query) noexcept;
  BlockStatus unpin(PinId pin) noexcept;

  // manager_checks.cpp ----------------------------------------------------------------------------
  struct Audit;
  [[nodiscard]] std::vector<Finding> check_invariants(CheckLevel level) const;
};

}  // namespace kvpool
