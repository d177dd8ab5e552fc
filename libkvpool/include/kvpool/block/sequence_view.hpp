// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/admission.hpp>
#include <kvpool/core/ids.hpp>
#include <kvpool/core/units.hpp>

#include <cstdint>
#include <span>

namespace kvpool {

/// Blocks [first, last) of a sequence in one group.
struct BlockRange {
  /// First block.
  BlockIndex first{};
  /// One past the last block.
  BlockIndex last{};

  /// Blocks in the range.
  [[nodiscard]] constexpr std::int64_t count() const noexcept {
    return last.value() - first.value();
  }
  /// Field by field.
  friend constexpr bool operator==(const BlockRange&, const BlockRange&) = default;
};

/// A sequence in one group. Valid until the next call that changes the manager.
struct GroupView {
  /// Column b is the page of block b. Columns before `held.first` are behind the window: they hold
  /// 0 (the guard page) here, and what a device table has there is not defined. States have one
  /// column, their live slot; a group that the sequence does not use has none.
  std::span<const std::int32_t> entries{};
  /// Blocks whose pages the sequence holds.
  BlockRange held{};
  /// Tokens whose cache is valid in this group; never more than the sequence's committed tokens.
  Tokens computed{};
};

/// Lengths of a sequence, in tokens: reserved >= committed >= computed.
struct SequenceLengths {
  /// Tokens with slots in every group.
  Tokens reserved{};
  /// Tokens that are final.
  Tokens committed{};
  /// Committed tokens whose epoch has completed: nothing in flight writes them. Exact while commits
  /// of at most two of the sequence's epochs are in flight; with more it may be late (those of an
  /// epoch are counted with those of the next), never early.
  Tokens computed{};
  /// Tokens of the prompt.
  Tokens prompt{};

  /// Field by field.
  friend constexpr bool operator==(const SequenceLengths&, const SequenceLengths&) = default;
};

/// Columns of a sequence in one group that changed. Valid until the next call that changes the
/// manager.
struct ChangedColumns {
  /// The first one.
  BlockIndex first{};
  /// Entries from there on.
  std::span<const std::int32_t> entries{};
};

/// What a step's table update needs of one sequence, in one read.
struct TableState {
  /// Tokens with slots; 0 for a stale id.
  std::int64_t reserved = 0;
  /// Bit g is set when the entries of group g have changed since `take_changes`.
  std::uint64_t changed_groups = 0;
  /// Bit g is set when the sequence has pages in group g (a sequence without drafter does not have
  /// the draft groups).
  std::uint64_t groups = 0;
};

}  // namespace kvpool
