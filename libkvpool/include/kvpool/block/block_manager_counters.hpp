// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace kvpool {

/// What has happened since creation.
struct BlockManagerCounters {
  /// Sequences admitted.
  std::int64_t admitted = 0;
  /// Calls refused for want of pages, quota or slots.
  std::int64_t refused = 0;
  /// Tokens of admitted prompts.
  std::int64_t prompt_tokens = 0;
  /// Tokens of them that were hits.
  std::int64_t hit_tokens = 0;
  /// Admissions with a hit.
  std::int64_t hits = 0;
  /// Sequences forked.
  std::int64_t forked = 0;
  /// Sequences released (also by suspend and preempt).
  std::int64_t released = 0;
  /// Prefix blocks evicted.
  std::int64_t evicted_blocks = 0;
  /// Pages of windows, chunks and snapshots evicted alone.
  std::int64_t evicted_pages = 0;
  /// Prefix blocks that went back at release because equal ones were cached.
  std::int64_t duplicate_blocks = 0;
  /// Snapshots of state taken.
  std::int64_t snapshots = 0;

  /// Field by field.
  friend constexpr bool operator==(const BlockManagerCounters&,
                                   const BlockManagerCounters&) = default;
};

}  // namespace kvpool
