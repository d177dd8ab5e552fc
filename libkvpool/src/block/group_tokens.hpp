// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/block/cache_group.hpp>
#include <kvpool/core/ids.hpp>

#include <cstdint>

namespace kvpool {

/// Whether tokens of the sequence have slots in the group: not those of encoders and states.
[[nodiscard]] inline bool depends_on_length(const CacheGroup& group) noexcept {
  return group.kind != GroupKind::kCross && group.kind != GroupKind::kState;
}

/// Tokens that a sequence has slots for in a group; a state counts as one. 0 for a stale id, and
/// for draft groups of a sequence without the drafter.
[[nodiscard]] inline std::int64_t group_tokens(const BlockManager& manager, SequenceId sequence,
                                               const CacheGroup& group) noexcept {
  const TableState state = manager.table_state(sequence);
  const auto place = static_cast<std::uint64_t>(&group - manager.groups().data());
  if ((state.groups >> place & 1U) == 0) {
    return 0;
  }
  switch (group.kind) {
    case GroupKind::kCross: return manager.encoder_tokens(sequence).count();
    case GroupKind::kState: return 1;
    case GroupKind::kFull:
    case GroupKind::kSlidingWindow:
    case GroupKind::kChunked: break;
  }
  return state.reserved;
}

}  // namespace kvpool
