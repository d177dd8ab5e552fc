// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>

#include "block/divider.hpp"
#include "block/level_lists.hpp"
#include "block/manager_state.hpp"
#include "block/name_tables.hpp"
#include "block/reserved_array.hpp"
#include "block/run_tree.hpp"
#include "block/timing_wheel.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvpool::block {

/// Everything that a block manager keeps. Set up once, in manager_create.cpp.
struct ManagerTables {
  explicit ManagerTables(const BlockManagerOptions& given)
      : options{given}, names{static_cast<std::size_t>(given.max_tenants)} {}

  BlockManagerOptions options;
  std::vector<PoolDescriptor> descriptors;
  std::vector<CacheGroup> described;
  std::vector<ManagedPool> pools;
  std::vector<ManagedGroup> groups;
  NameTables names;
  /// Items that have names: tokens below -items mean nothing.
  std::int64_t items = 0;
  RunTree runs;
  TimingWheel timers;
  /// [runs] Time to live, 0 for none, and when it is over.
  ReservedArray<std::int64_t> time_to_live;
  ReservedArray<std::int64_t> expires;
  /// [runs] Neighbours among the listed runs of one tenant.
  ReservedArray<Link> tenant_links;
  /// [units] Run of a unit with pages in a shared pool.
  ReservedArray<std::uint32_t> run_of_unit;
  /// Tokens of a prefix block.
  std::int64_t block_tokens = 1;
  Divider by_block;
  std::uint64_t all_groups = 0;
  std::uint64_t draft_groups = 0;
  std::uint64_t state_groups = 0;
  /// Windows and chunks.
  std::uint64_t window_groups = 0;
  bool has_windows = false;
  bool all_full = false;
  bool any_shared = false;
  bool has_cross = false;
  std::int64_t draft_limit = 0;
  /// Pages of a prefix block, over all groups.
  std::int64_t pages_per_block = 0;

  ReservedArray<HotSequence> hot;
  ReservedArray<ColdSequence> cold;
  ReservedArray<SequenceCell> cells;
  std::vector<std::uint32_t> free_sequences;
  std::vector<PinnedPrefix> pins;
  std::vector<std::uint32_t> free_pins;
  /// [tenants * pools], and lists of what is idle: [tenants], [tenants * groups].
  std::vector<TenantAccount> tenants;
  /// [tenants] Has a quota in some pool.
  std::vector<bool> limited;
  std::vector<LinkedList> tenant_runs;
  std::vector<LinkedList> tenant_pages;

  LevelLists run_lists;
  LinkedList cooling_runs;
  /// Units of runs that may be evicted, and of those that are cooling.
  std::int64_t idle_units = 0;
  std::int64_t cooling_units = 0;
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
};

}  // namespace kvpool::block
