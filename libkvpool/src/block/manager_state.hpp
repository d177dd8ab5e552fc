// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/admission.hpp>
#include <kvpool/block/cache_group.hpp>
#include <kvpool/block/page_pool.hpp>
#include <kvpool/block/retention.hpp>

#include "block/divider.hpp"
#include "block/level_lists.hpp"
#include "block/page_pool_impl.hpp"
#include "block/reserved_array.hpp"
#include "block/run_tree.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kvpool::block {

/// Groups that a manager can have: one bit each in a word.
inline constexpr std::size_t kMaxGroups = 64;
/// Runs that there are beside those of sequences and cache.
inline constexpr std::int64_t kSpareRuns = 64;
/// Tokens to come that a sequence has room for at first, and again when the room is used up.
inline constexpr std::int64_t kTokenRoom = 256;

/// A group and its tables.
struct ManagedGroup {
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
struct PageMeta {
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
static_assert(sizeof(PageMeta) == 32);

/// A pool.
struct ManagedPool {
  explicit ManagedPool(PagePool page_pool) noexcept : pages{std::move(page_pool)} {}
  PagePool pages;
  /// Only for pools with independent groups, or shared ones.
  ReservedArray<PageMeta> meta;
  /// Its groups, [first, last) of the manager's.
  std::size_t first_group = 0;
  std::size_t last_group = 0;
};

/// What a step reads and writes of a sequence: one line of the processor's cache.
struct HotSequence {
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
static_assert(sizeof(HotSequence) == 64);

/// The rest of a sequence.
struct ColdSequence {
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
  /// Computed tokens from which on a window or chunk has pages behind it; 0 for not known.
  std::int32_t window_due;
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
struct SequenceCell {
  std::int32_t first = 0;
  std::int32_t end = 0;
  std::int32_t changed_first = 0;
  std::int32_t changed_end = 0;
  /// Page of the last snapshot that the sequence holds, in groups of states; -1 for none.
  std::int32_t snapshot = -1;
};

struct PinnedPrefix {
  std::uint32_t generation;
  std::uint32_t run;
  std::int64_t tokens;
  bool draft;
  bool live;
};

struct TenantAccount {
  std::int64_t used = 0;
  std::int64_t idle = 0;
  std::int64_t cooling = 0;
  /// -1 for none.
  std::int64_t quota = -1;
};

/// What a call needs: pages per group, of which so many are charged to `tenant`; and what it is
/// about to hold of what is idle now.
struct PageNeed {
  /// Nothing, for a manager of `groups` groups; the rest of the arrays stays as it is.
  explicit PageNeed(std::size_t groups) noexcept {  // NOLINT: see above
    for (std::size_t g = 0; g < groups; ++g) {
      pages[g] = 0;
      own[g] = 0;
      pinned[g] = 0;
      pinned_own[g] = 0;
      pinned_cooling[g] = 0;
      pinned_own_cooling[g] = 0;
    }
  }

  std::array<std::int64_t, kMaxGroups> pages;
  std::array<std::int64_t, kMaxGroups> own;
  std::array<std::int64_t, kMaxGroups> pinned;
  /// By pool; a manager has no more pools than groups.
  std::array<std::int64_t, kMaxGroups> pinned_own;
  /// The same of what is cooling now.
  std::array<std::int64_t, kMaxGroups> pinned_cooling;
  std::array<std::int64_t, kMaxGroups> pinned_own_cooling;
  std::size_t tenant = 0;
  /// Units of the runs that it is about to hold: idle ones, and cooling ones.
  std::int64_t pinned_units = 0;
  std::int64_t pinned_cooling_units = 0;
};

/// What the cache has of a prompt.
struct PrefixMatch {
  PrefixHit hit;
  /// End of the whole blocks.
  Cursor at;
  /// Block whose pages are copied for the partial tokens.
  std::uint32_t partial_run = 0;
  std::uint32_t partial_unit = 0;
};

/// Attributes of tokens from a position on.
struct TokenSegment {
  std::int32_t name_space = 0;
  std::uint16_t tenant = 0;
  std::uint8_t priority = kDefaultPriority;
  std::int64_t ttl = 0;
  /// First token of the next segment.
  std::int64_t end = 0;
};

}  // namespace kvpool::block
