// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/page_pool.hpp>
#include <kvpool/core/units.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace kvpool {

/// What a block manager is sized and set up for. Everything that it ever needs is reserved at
/// creation: address space at once, memory as it is used.
struct BlockManagerOptions {
  /// Sequences that live at the same time, forks included; 1..2^20.
  Sequences max_sequences{256};
  /// Longest sequence, uncommitted tokens included; 1..2^30.
  Tokens max_length{131'072};
  /// Longest sequence that the drafter follows; empty for `max_length`.
  std::optional<Tokens> draft_max_length{};
  /// Tokens before the end of a cached prefix that the drafter wants to see computed anew; a hit
  /// ends so much earlier, in all pools alike.
  Tokens draft_lookahead{};
  /// A snapshot of recurrent state is kept whenever a sequence is committed to exactly a multiple
  /// of this, with no slots ahead that a step may have filled (draft tokens that are not cut off
  /// yet), and a slot can be had; 0 for none. A multiple of the prefix block.
  Tokens snapshot_interval{};
  /// Reuse the equal part of a page by copying it (only where all groups are full).
  bool partial_page_reuse = true;
  /// False: nothing is looked up or kept.
  bool prefix_cache = true;
  /// Pins that exist at the same time.
  std::int64_t max_pins = 64;
  /// Tenants, the public one included.
  std::int64_t max_tenants = 64;
  /// Runs of tokens in the prefix cache (nodes of its tree: mostly one for a prompt, and one more
  /// where prompts part); 0 for one for every five prefix blocks of the pools, and 64. When it is
  /// reached, the least recently used go, so that prompts of fewer blocks do not fill the pools.
  std::int64_t max_cached_runs = 0;
  /// Copies that may be listed between two `take_copies`; 0 for a number derived from
  /// `max_sequences`.
  std::int64_t max_copies = 0;
  /// Remember the last owner of every page, so that findings name sequence, group and step.
  bool record_owners = true;
  /// See `PageGate`: for tests.
  PageGate gate{};
  /// Runs when a page has become free for others: poison it here.
  PageHook on_free{};
  /// Runs when a page is handed out: check the poison here.
  PageHook on_allocate{};

  /// `draft_max_length`, or what stands for it.
  [[nodiscard]] Tokens draft_limit() const noexcept {
    return std::min(draft_max_length.value_or(max_length), max_length);
  }
};

}  // namespace kvpool
