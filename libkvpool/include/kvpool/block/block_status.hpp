// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace kvpool {

/// Answer of the calls that an engine makes in its step. They do not throw, allocate or log; a call
/// that does not return `kOk` has changed nothing.
enum class BlockStatus : std::uint8_t {
  /// Done.
  kOk,
  /// Too few pages, even if everything that may be evicted were; see `BlockManager::shortage()`.
  kNoPages,
  /// Enough pages (and storage of tokens), but some become free only when the epoch in
  /// `shortage().settles_at` completes.
  kUnsettled,
  /// The tenant's quota would be exceeded; see `shortage()`.
  kOverQuota,
  /// All slots for sequences (or pins) are taken; or live prompts whose pages are not reserved yet
  /// have filled the storage of tokens.
  kNoSlot,
  /// The sequence would exceed `BlockManagerOptions::max_length`.
  kTooLong,
  /// The id names no live sequence (or pin): it was released, or never handed out.
  kStaleId,
  /// An argument or the order of calls is wrong: more tokens committed than are reserved, a
  /// negative count, an unknown group. The manager is unchanged.
  kInvalid,
  /// The list of page copies is full: the engine has to take it (`take_copies`) every step.
  kCopiesFull,
};

/// Stable lower-case name: `ok`, `no_pages`, `unsettled`, ...
[[nodiscard]] std::string_view to_string(BlockStatus status) noexcept;

}  // namespace kvpool
