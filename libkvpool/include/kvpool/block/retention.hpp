// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>
#include <kvpool/core/units.hpp>

#include <cstdint>
#include <span>

namespace kvpool {

/// A point on the caller's clock, in ticks of any length; never decreasing.
using Instant = Id<struct InstantTag, std::int64_t>;
/// Ticks of the caller's clock.
using Ticks = Quantity<struct TicksTag>;

/// Priority of cached blocks: 0 goes first, 100 last.
inline constexpr int kLowestPriority = 0;
/// Priority of cached blocks that nothing was said about, and of those whose time is over.
inline constexpr int kDefaultPriority = 35;
/// Highest priority.
inline constexpr int kHighestPriority = 100;

/// How long cached blocks are worth keeping.
struct Retention {
  /// 0..100; within a priority the least recently used goes first.
  int priority = kDefaultPriority;
  /// Ticks after the last use at which the blocks fall to `kDefaultPriority`; 0 for never.
  Ticks time_to_live{};

  /// Field by field.
  friend constexpr bool operator==(const Retention&, const Retention&) = default;
};

/// Retention of the prompt's tokens [first, last). Both ends are rounded down to prefix blocks.
struct RetentionRange {
  /// First token.
  Tokens first{};
  /// One past the last token.
  Tokens last{};
  /// What applies to them.
  Retention retention{};

  /// Field by field.
  friend constexpr bool operator==(const RetentionRange&, const RetentionRange&) = default;
};

/// Retention of a whole sequence.
struct RetentionPolicy {
  /// Ascending ranges of the prompt that do not overlap; what none covers has the default.
  std::span<const RetentionRange> prompt{};
  /// Tokens after the prompt.
  Retention generated{};
};

}  // namespace kvpool
