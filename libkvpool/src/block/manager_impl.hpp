// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>

#include "block/divider.hpp"
#include "block/level_lists.hpp"
#include "block/name_tables.hpp"
#include "block/page_pool_impl.hpp"
#include "block/reserved_array.hpp"
#include "block/run_tree.hpp"
#include "block/timing_wheel.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvpool {

/// Groups that a manager can have: one bit each in a word.
inline constexpr std::size_t kMaxGroups = 64;
/// Runs that the tokens of one call may be stored in.
inline constexpr std::uint32_t kMostTokenRuns = 16;
/// Tokens to come that a sequence has room for at first, and again when the room is used up.
inline constexpr std::int64_t kTokenRoom = 256;

/// Inside of the block manager. A page is *held* (by a sequence or pin), *idle* (cached, may be
/// evicted) or *cooling* (as idle, but an epoch that may read it is open).
///
/// Pages of full groups are held and evicted with the runs that they belong to. Pages of the other
/// groups ("independent": windows, chunks, encoder tokens, states) count their holders one by one,
/// and can go while their run stays, which leaves a hole.
struct BlockManager::Impl {
  using Cursor = block::Cursor;
  using Run = block::Run;

  /// A group and its tables.
  struct Group {
    GroupKind kind = GroupKind::kFull;
    bool independent = false;
    bool draft = false;
    /// Shared through prefixes: full, windows, chunks (states by snapshots).
    bool paged = false;
    std::int32_t pool = 0;
    std::int32_t group_in_pool = 0;
    /// Tokens of a page.
    std::int64_t page = 1;
    block::Divider by_page;
    block::Divider by_extent;
    /// Pages of a prefix block; 1 for snapshots of state.
    std::int64_t per_block = 0;
    std::int64_t extent = 0;
    /// Columns of a sequence's row.
    std::size_t columns = 0;
    PagePool::Impl* pages = nullptr;
    std::int64_t idle = 0;
    std::int64_t cooling = 0;
    /// [units * per_block] Pages by unit; -1 for a hole.
    ReservedArray<std::int32_t> by_unit;
    /// [sequences * columns] The tables.
    ReservedArray<std::int32_t> rows;
    /// Independent groups: what is idle, and what is cooling, in order.
    LevelLists lists;
    LinkedList cooling_list;
  };

  /// What is known of a page beside its being out, by slot.
  struct Meta {
    enum Flag : std::uint8_t {
      kRecorded = 1,  ///< has a place in `by_unit`
      kKept = 2,      ///< its run is published: it stays when nobody holds it
      kListed = 4,
      kCooling = 8,
    };
    std::uint32_t holders;
    /// Place in `by_unit`, when recorded (and for all full groups of shared pools).
    std::uint32_t place;
    Link list;
    Link tenant_list;
    /// Low bits of the epoch in which it was last let go of.
    std::uint32_t epoch;
    std::uint16_t tenant;
    std::uint8_t level;
    std::uint8_t flags;

    [[nodiscard]] bool has(Flag flag) const noexcept { return (flags & flag) != 0; }
    void set(Flag flag) noexcept { flags = static_cast<std::uint8_t>(flags | flag); }
    void clear(Flag flag) noexcept { flags = static_cast<std::uint8_t>(flags & ~flag); }
  };
  static_assert(sizeof(Meta) == 32);

  /// A pool.
  struct Pool {
    explicit Pool(PagePool page_pool) noexcept : pages{std::move(page_pool)} {}
    PagePool pages;
    /// Only for pools with independent groups, or shared ones.
    ReservedArray<Meta> meta;
    /// Its groups, [first, last) of the manager's.
    std::size_t first_group = 0;
    std::size_t last_group = 0;
  };

  /// What a step reads and writes of a sequence: one line of the processor's cache.
  struct Hot {
    /// Generation of the live sequence, or `kNil`.
    std::uint32_t generation;
    std::int32_t reserved;
    std::int32_t committed;
    /// Reserved tokens up to which no group needs a page.
    std::int32_t boundary;
    /// Committed tokens from which on a commit has more to do than to store tokens.
    std::int32_t event;
    /// Committed tokens of epochs before `previous_epoch`.
    std::int32_t settled;
    /// Where the next committed token goes.
    std::int32_t* write;
    std::uint64_t changed;
    std::uint64_t groups;
    /// Committed tokens of epochs up to `previous_epoch`.
    std::int32_t previous;
    std::uint32_t previous_epoch;
    std::uint32_t last_epoch;
    /// Reserved tokens from which on no group has a page too many.
    std::int32_t last_page;
  };
  static_assert(sizeof(Hot) == 64);

  /// The rest of a sequence.
  struct Cold {
    std::uint32_t generation;
    /// Run that the next complete block belongs to, and the one that tokens are written to.
    std::uint32_t open;
    std::uint32_t tail;
    std::int32_t prompt;
    std::int32_t open_base;
    std::int32_t tail_base;
    /// Tokens in complete blocks that are recorded in runs.
    std::int32_t done;
    /// Tokens whose pages in draft groups are recorded in runs.
    std::int32_t draft_done;
    std::int32_t public_tokens;
    std::int32_t encoder_tokens;
    std::int32_t name_space;
    /// Committed tokens that a drafter has; -1 while it follows.
    std::int32_t draft_computed;
    /// Committed tokens that the live states are exact at; -1 while they follow.
    std::int32_t state_computed;
    /// Tokens of the last snapshot; 0 for none.
    std::int32_t snapshot;
    std::uint16_t tenant;
    std::uint8_t generated_priority;
    bool caches;
    /// As asked for in its request.
    bool uses_cache;
    DraftMode draft_mode;
    DraftNotice notice;
    std::int64_t generated_ttl;
    std::uint64_t released_in;
  };

  /// A sequence in a group: its pages are those of columns [first, end).
  struct Cell {
    std::int32_t first = 0;
    std::int32_t end = 0;
    std::int32_t changed_first = 0;
    std::int32_t changed_end = 0;
    /// Page of the last snapshot that the sequence holds, in groups of states; -1 for none.
    std::int32_t snapshot = -1;
  };

  struct Pin {
    std::uint32_t generation;
    std::uint32_t run;
    std::int64_t tokens;
    bool draft;
    bool live;
  };

  struct Tenant {
    std::int64_t used = 0;
    std::int64_t idle = 0;
    std::int64_t cooling = 0;
    /// -1 for none.
    std::int64_t quota = -1;
  };

  /// What a call needs: pages per group, of which so many are charged to `tenant`; and what it is
  /// about to hold of what is idle now.
  struct Need {
    /// Nothing, for a manager of `groups` groups; the rest of the arrays stays as it is.
    explicit Need(std::size_t groups) noexcept {  // NOLINT: see above
      for (std::size_t g = 0; g < groups; ++g) {
        pages[g] = 0;
        own[g] = 0;
        pinned[g] = 0;
        pinned_own[g] = 0;
      }
    }

    std::array<std::int64_t, kMaxGroups> pages;
    std::array<std::int64_t, kMaxGroups> own;
    std::array<std::int64_t, kMaxGroups> pinned;
    /// By pool; a manager has no more pools than groups.
    std::array<std::int64_t, kMaxGroups> pinned_own;
    std::size_t tenant = 0;
  };

  /// What the cache has of a prompt.
  struct Match {
    PrefixHit hit;
    /// End of the whole blocks.
    Cursor at;
    /// Block whose pages are copied for the partial tokens.
    std::uint32_t partial_run = 0;
    std::uint32_t partial_unit = 0;
  };

  /// Attributes of tokens from a position on.
  struct Segment {
    std::int32_t name_space = 0;
    std::uint16_t tenant = 0;
    std::uint8_t priority = kDefaultPriority;
    std::int64_t ttl = 0;
    /// First token of the next segment.
    std::int64_t end = 0;
  };

  explicit Impl(const BlockManagerOptions& given)
      : options{given}, names{static_cast<std::size_t>(given.max_tenants)} {}

  // Set up in manager_create.cpp.
  BlockManagerOptions options;
  std::vector<PoolDescriptor> descriptors;
  std::vector<CacheGroup> described;
  std::vector<Pool> pools;
  std::vector<Group> groups;
  block::NameTables names;
  /// Items that have names: tokens below -items mean nothing.
  std::int64_t items = 0;
  block::RunTree runs;
  block::TimingWheel timers;
  /// [runs] Time to live, 0 for none, and when it is over.
  ReservedArray<std::int64_t> time_to_live;
  ReservedArray<std::int64_t> expires;
  /// [runs] Neighbours among the listed runs of one tenant.
  ReservedArray<Link> tenant_links;
  /// [units] Run of a unit with pages in a shared pool.
  ReservedArray<std::uint32_t> run_of_unit;
  /// Tokens of a prefix block.
  std::int64_t block_tokens = 1;
  block::Divider by_block;
  std::uint64_t all_groups = 0;
  std::uint64_t draft_groups = 0;
  std::uint64_t state_groups = 0;
  bool has_windows = false;
  bool all_full = false;
  bool any_shared = false;
  bool has_cross = false;
  std::int64_t draft_limit = 0;
  /// Pages of a prefix block, over all groups.
  std::int64_t pages_per_block = 0;

  ReservedArray<Hot> hot;
  ReservedArray<Cold> cold;
  ReservedArray<Cell> cells;
  std::vector<std::uint32_t> free_sequences;
  std::vector<Pin> pins;
  std::vector<std::uint32_t> free_pins;
  /// [tenants * pools], and lists of what is idle: [tenants], [tenants * groups].
  std::vector<Tenant> tenants;
  /// [tenants] Has a quota in some pool.
  std::vector<bool> limited;
  std::vector<LinkedList> tenant_runs;
  std::vector<LinkedList> tenant_pages;

  LevelLists run_lists;
  LinkedList cooling_runs;
  std::uint32_t stamp = 0;

  std::uint64_t opened = 0;
  std::uint64_t completed = 0;
  std::int64_t now = 0;
  SequenceId current;

  std::vector<PageCopy> copies;
  std::vector<GroupShortage> shortage_lines;
  Shortage shortage;
  BlockManagerCounters counters;
  std::int64_t live = 0;
  /// Pages still to be taken by the present call, of shared pools.
  std::array<std::int64_t, kMaxGroups> remaining{};

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
  void list_page(std::size_t group, std::int32_t page, std::size_t level) noexcept;
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
  struct Admission;
  [[nodiscard]] bool is_valid(const AdmitRequest& request) const noexcept;
  /// Its tokens are not looked at: unknown ones match nothing.
  [[nodiscard]] bool is_valid(const PrefixQuery& query) const noexcept;
  /// No token below those of items that have names.
  [[nodiscard]] bool are_known(std::span<const std::int32_t> tokens) const noexcept;
  [[nodiscard]] AdmitOutcome admit(const AdmitRequest& request, bool only_probe) noexcept;
  [[nodiscard]] BlockStatus try_admit(const AdmitRequest& request, const Match& match, bool draft,
                                      std::int64_t reserve, Need& need) noexcept;
  SequenceId start(const AdmitRequest& request, const Match& match, bool draft,
                   std::int64_t reserve, const Need& need, const Admission& admission,
                   DraftNotice notice) noexcept;
  [[nodiscard]] Segment segment_at(const Cold& of, const RetentionPolicy& retention,
                                   std::int64_t token) const noexcept;
  /// Adds a run for tokens to come. @pre a run is free; the extent is not empty
  std::uint32_t add_run(std::size_t sequence, const Segment& segment, block::Extent extent,
                        std::uint32_t parent) noexcept;
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
  void advance_windows(std::size_t sequence) noexcept;
  void take_snapshots(std::size_t sequence) noexcept;
  /// Gives back the drafter's pages that are the sequence's own.
  void leave_draft(std::size_t sequence) noexcept;
  void drop_draft(std::size_t sequence, DraftNotice notice) noexcept;
  void free_columns(std::size_t sequence, std::size_t group, std::int64_t first) noexcept;
  void add_copy(std::size_t group, std::int32_t source, std::int32_t destination, CopyOrder order,
                CopyReason reason) noexcept;
  [[nodiscard]] BlockStatus append_slow(std::size_t sequence, std::int64_t reserved) noexcept;
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
