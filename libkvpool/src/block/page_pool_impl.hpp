// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/page_pool.hpp>

#include "block/divider.hpp"
#include "block/level_lists.hpp"
#include "block/page_pool_state.hpp"
#include "block/reserved_array.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvpool {

using block::kNil;
using block::LevelLists;
using block::Link;
using block::LinkedList;
using block::ReservedArray;

/// Pages of one pool. A page has a *slot*, slab * most pages a slab + place in the slab, that the
/// tables of the pool and of the block manager are indexed by; in a pool with one group slot, slab
/// and page id are one.
///
/// A page is out (handed out) or in. Of the pages that are out the block manager calls some *idle*:
/// cached, and held by nobody. A page is *busy* when it is out and not idle, or when it was given
/// back and waits for an epoch. Of the busy pages those are *held* that somebody has: neither given
/// back nor *cooling*, which a cached page is until the epochs that may read it have completed. The
/// counts of busy pages tell what a pool could hand out if all that is idle were evicted, those of
/// held pages what it could once all open epochs have completed.
struct PagePool::Impl {
  using Group = block::PooledPages;
  using Slab = block::SlabState;
  using OwnerRecord = block::OwnerRecord;
  using Pending = block::PendingPages;

  /// Epochs that pages may wait for at the same time and are kept apart.
  static constexpr std::size_t kPendingEpochs = 64;

  PagePoolOptions options;
  /// More than one group: slabs move between them.
  bool shared = false;
  /// Nobody is asked or told when a page is handed out.
  bool silent = true;
  std::int32_t first_slab = 0;
  std::int32_t slabs_end = 0;
  /// Most pages a slab, over the groups.
  std::int32_t slots_per_slab = 1;
  std::int32_t units_per_slab = 1;
  block::Divider by_units_per_slab;
  block::Divider by_slots_per_slab;
  std::vector<Group> groups;

  /// Simple pools: pages that are in, the last one on top. Shared pools: slabs without a group.
  ReservedArray<std::int32_t> free_stack;
  std::int64_t free_count = 0;
  /// Pages (slabs) from here on have never been handed out.
  std::int32_t fresh = 0;
  /// Shared pools.
  ReservedArray<Slab> slabs;
  /// Shared pools: 1 + next page in the slab's chain, by slot.
  ReservedArray<std::int32_t> chain;
  LevelLists reclaimable;
  /// Shared pools: slabs without a busy page, with or without a group.
  std::int64_t quiet_slabs = 0;
  /// Shared pools: slabs without a held page; the quiet ones are among them.
  std::int64_t unheld_slabs = 0;

  /// One bit per slot: out.
  ReservedArray<std::uint64_t> out_bits;
  ReservedArray<OwnerRecord> owners;
  SequenceId owner;

  /// Pages that wait for an epoch, in order of being given back: a ring of slots, and of epochs.
  ReservedArray<std::int32_t> pending_slots;
  std::size_t pending_head = 0;
  std::size_t pending_tail = 0;
  std::size_t pending_count = 0;
  std::array<Pending, kPendingEpochs> pending{};
  std::size_t pending_first = 0;
  std::size_t pending_epochs = 0;

  std::uint64_t opened = 0;
  std::uint64_t completed = 0;

  /// Slots in all, reserved ones included.
  [[nodiscard]] std::size_t slots() const noexcept {
    return static_cast<std::size_t>(slabs_end) * static_cast<std::size_t>(slots_per_slab);
  }
  /// Slot of a page.
  [[nodiscard]] std::uint32_t slot_of(std::int32_t group, std::int32_t page) const noexcept {
    if (!shared) {
      return static_cast<std::uint32_t>(page);
    }
    const std::int64_t slab = by_units_per_slab.floor(page);
    const std::int64_t place = groups[static_cast<std::size_t>(group)].by_units_per_page.floor(
        page - slab * units_per_slab);
    return static_cast<std::uint32_t>(slab * slots_per_slab + place);
  }
  /// Page at a place of a slab.
  [[nodiscard]] std::int32_t page_at(std::int32_t group, std::int32_t slab,
                                     std::int32_t place) const noexcept {
    return slab * units_per_slab + place * groups[static_cast<std::size_t>(group)].units_per_page;
  }
  [[nodiscard]] bool is_out(std::uint32_t slot) const noexcept {
    return (out_bits[slot / 64] >> (slot % 64) & 1U) != 0;
  }
  [[nodiscard]] std::uint32_t slab_of(std::uint32_t slot) const noexcept {
    return static_cast<std::uint32_t>(by_slots_per_slab.floor(slot));
  }
  /// Free slabs of a shared pool.
  [[nodiscard]] std::int64_t free_slab_count() const noexcept {
    return free_count + (slabs_end - fresh);
  }
  /// Pages of a simple pool that are in and settled.
  [[nodiscard]] std::int64_t free_page_count() const noexcept { return free_slab_count(); }

  /// Hands out a page of a pool that is not shared. @pre one is free; no gate, no hook
  std::int32_t take_simple() noexcept {
    const std::int32_t page =
        free_count > 0 ? free_stack[static_cast<std::size_t>(--free_count)] : fresh++;
    ++groups.front().out;
    set_out(static_cast<std::uint32_t>(page), true);
    return page;
  }
  /// Hands out a page, or returns -1. Shared pools: from an open slab with a busy page, then, when
  /// `may_take_slab`, from a quiet one or a free slab.
  std::int32_t take(std::int32_t group, bool may_take_slab) noexcept;
  /// Slabs without a group: takes one, or returns -1.
  [[nodiscard]] std::int32_t take_slab() noexcept {
    if (free_count > 0) {
      return free_stack[static_cast<std::size_t>(--free_count)];
    }
    return fresh < slabs_end ? fresh++ : -1;
  }
  /// Hands out `count` pages of a pool that is not shared, as `take` would one by one.
  /// @pre so many are free, and nobody is asked or told about them (no gate, no hook)
  void take_many(std::int32_t* to, std::int64_t count) noexcept;
  /// As `give_back`, for a pool that is not shared and a page that is out.
  void give_back_simple(std::uint32_t slot, bool settled) noexcept {
    set_out(slot, false);
    Group& of = groups.front();
    --of.out;
    if (!settled && opened != completed) {
      push_pending(slot);
      ++of.pending;
      return;
    }
    insert_free_simple(slot);
  }
  void insert_free_simple(std::uint32_t slot) noexcept {
    const auto page = static_cast<std::int32_t>(slot);
    free_stack[static_cast<std::size_t>(free_count++)] = page;
    if (options.on_free.call != nullptr) {
      options.on_free.call(options.on_free.context, options.pool, PageId{page},
                           groups.front().page_bytes);
    }
  }
  /// Gives back a page that is out and held; fenced when an epoch is open, unless `settled`.
  void give_back(std::int32_t group, std::int32_t page, bool settled) noexcept;
  /// Gives back a page that is out and idle.
  void give_back_idle(std::int32_t group, std::int32_t page) noexcept;
  /// A page that is held became idle, at a level of eviction. Only shared pools count it.
  void mark_idle(std::int32_t group, std::uint32_t slot, std::size_t level) noexcept {
    if (shared) {
      const std::uint32_t index = slab_of(slot);
      Slab& slab = slabs[index];
      slab.level = std::max(slab.level, static_cast<std::int16_t>(level));
      count_busy(group, index, -1, -1);
    }
  }
  /// An idle page got a holder.
  void mark_busy(std::int32_t group, std::int32_t page) noexcept {
    if (shared) {
      mark_busy_shared(group, page);
    }
  }
  /// Counts an idle or cooling page as if it were held (`by` = 1), or no longer so (-1), without a
  /// trace in any list: for a call that is only looked at.
  void count_as_held(std::int32_t group, std::int32_t page, bool is_idle,
                     std::int32_t by) noexcept {
    if (shared) {
      const std::uint32_t index = slab_of(slot_of(group, page));
      count(group, index, is_idle ? by : 0, by);
    }
  }
  /// A page that is held begins to cool, or one that cools is held again.
  void mark_cooling(std::int32_t group, std::int32_t page, bool cools) noexcept {
    if (shared) {
      count(group, slab_of(slot_of(group, page)), 0, cools ? -1 : 1);
    }
  }
  /// Asks for what `mark_idle` will look at.
  void prefetch_slab(std::uint32_t slot) const noexcept {
    if (shared) {
      __builtin_prefetch(&slabs[slab_of(slot)]);
    }
  }
  /// Moves pages whose epochs have completed to the free ones.
  void settle() noexcept;

  void mark_busy_shared(std::int32_t group, std::int32_t page) noexcept;
  void set_out(std::uint32_t slot, bool out) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
    std::uint64_t& word = out_bits[slot / 64];
    word = out ? word | bit : word & ~bit;
    if (owners.size() != 0) {
      OwnerRecord& record = owners[slot];
      if (out) {
        record.sequence = owner;
      }
      record.step_and_out = static_cast<std::uint32_t>(opened * 2) + (out ? 1 : 0);
    }
  }
  /// Counts `busy` more busy pages of a slab, and `held` more that are held.
  void count(std::int32_t group, std::uint32_t slab_index, std::int32_t busy,
             std::int32_t held) noexcept {
    Slab& slab = slabs[slab_index];
    Group& of = groups[static_cast<std::size_t>(group)];
    const auto spare = [&of](std::int32_t used) {
      return used == 0 ? 0 : of.pages_per_slab - used;
    };
    const auto none = [](std::int32_t used) { return used == 0 ? 1 : 0; };
    const std::int32_t busy_before = slab.busy;
    const std::int32_t held_before = slab.held;
    slab.busy += busy;
    slab.held += held;
    of.spare += spare(slab.busy) - spare(busy_before);
    of.spare_later += spare(slab.held) - spare(held_before);
    quiet_slabs += none(slab.busy) - none(busy_before);
    unheld_slabs += none(slab.held) - none(held_before);
  }
  /// The same, and keeps the lists of slabs in order.
  void count_busy(std::int32_t group, std::uint32_t slab_index, std::int32_t busy,
                  std::int32_t held) noexcept {
    const bool was_quiet = slabs[slab_index].busy == 0;
    count(group, slab_index, busy, held);
    if (was_quiet != (slabs[slab_index].busy == 0)) {
      list_slab(group, slab_index);
    }
  }
  /// A slab has become quiet, or is so no longer.
  void list_slab(std::int32_t group, std::uint32_t slab_index) noexcept;
  void update_open(std::int32_t group, std::uint32_t slab_index) noexcept;
  void update_reclaimable(std::uint32_t slab_index) noexcept;
  void insert_free(std::int32_t group, std::uint32_t slot) noexcept;
  /// Puts a page behind those that wait. Epochs are counted together when too many are open, which
  /// only delays.
  void push_pending(std::uint32_t slot) noexcept {
    pending_slots[pending_tail] = static_cast<std::int32_t>(slot);
    ++pending_tail;
    pending_tail = pending_tail == pending_slots.size() ? 0 : pending_tail;
    ++pending_count;
    if (pending_epochs != 0) {
      Pending& last = pending[(pending_first + pending_epochs - 1) % kPendingEpochs];
      if (last.epoch == opened || pending_epochs == kPendingEpochs) {
        last.epoch = opened;
        ++last.pages;
        return;
      }
    }
    pending[(pending_first + pending_epochs) % kPendingEpochs] = {.epoch = opened, .pages = 1};
    ++pending_epochs;
  }
  /// The link that `reclaimable` uses.
  [[nodiscard]] auto reclaim_link() noexcept {
    return [this](std::uint32_t i) -> Link& { return slabs[i].reclaim; };
  }
  [[nodiscard]] auto open_link() noexcept {
    return [this](std::uint32_t i) -> Link& { return slabs[i].open; };
  }
};

}  // namespace kvpool
