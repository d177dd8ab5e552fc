// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>
#include <kvpool/core/units.hpp>

#include "block/divider.hpp"
#include "block/level_lists.hpp"

#include <cstdint>

namespace kvpool::block {

/// One group's share of the slabs.
struct PooledPages {
  std::int32_t pages_per_slab = 1;
  /// Units from one page of a slab to the next.
  std::int32_t units_per_page = 1;
  Divider by_units_per_page;
  Divider by_pages_per_slab;
  Bytes page_bytes;
  /// Pages that are out.
  std::int64_t out = 0;
  /// Pages that are in, settled, and in slabs of the group.
  std::int64_t in = 0;
  /// Pages that wait for an epoch (shared pools).
  std::int64_t pending = 0;
  /// Pages that are not busy, in slabs of the group that have a busy page (shared pools).
  std::int64_t spare = 0;
  /// Pages that are not held, in slabs of the group that have a held page (shared pools).
  std::int64_t spare_later = 0;
  /// Slabs of the group with a page to hand out: with a busy page, and without (shared pools).
  LinkedList open_busy;
  LinkedList open_idle;
};

/// A slab of a pool that several groups share.
struct SlabState {
  Link open;
  /// Place among the slabs that could be reclaimed: all their pages are in or idle, some idle.
  Link reclaim;
  /// First page that was given back (place in the slab), or -1.
  std::int32_t first_in;
  /// Pages from here on have never been handed out since the slab got its group.
  std::int32_t fresh;
  std::int32_t busy;
  std::int32_t held;
  std::int32_t out;
  /// 1 + group; 0 for none.
  std::int16_t owner;
  /// 1 + level in the lists of reclaimable slabs; 0 when in none.
  std::int16_t reclaim_level;
  /// Highest level that its idle pages became idle with.
  std::int16_t level;
  /// In one of the group's lists of open slabs.
  bool is_open;
};

/// Last owner of a page.
struct OwnerRecord {
  SequenceId sequence;
  /// 2 * low bits of the step, + 1 while the page is out.
  std::uint32_t step_and_out;
};
static_assert(sizeof(OwnerRecord) == 12);

/// Pages that wait for the same epoch.
struct PendingPages {
  std::uint64_t epoch;
  std::int64_t pages;
};

}  // namespace kvpool::block
