// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>
#include <kvpool/core/units.hpp>

#include <cstdint>

namespace kvpool {

/// When a copy has to run, in the order of the engine's stream.
enum class CopyOrder : std::uint8_t {
  kBeforeStep,  ///< before the kernels of the step read or write the destination
  kAfterStep,   ///< after the kernels of the step have written the source
};

/// Why pages are copied.
enum class CopyReason : std::uint8_t {
  kPartialReuse,     ///< the equal part of a cached page, for a sequence that goes on differently
  kFork,             ///< the incomplete page of a forked sequence
  kSnapshot,         ///< state of a sequence, kept at a boundary
  kRestoreSnapshot,  ///< kept state, for a sequence that goes on from the boundary
};

/// One page (or slot of state) to be copied inside its pool, whole: `page_bytes` of the group from
/// `base + source * unit_bytes` to `base + destination * unit_bytes`. Neither page is handed out to
/// others before the epoch in which the copy was listed has completed.
struct PageCopy {
  /// Group, of `BlockManager::groups()`.
  GroupId group{};
  /// Page that is read.
  PageId source{};
  /// Page that is written.
  PageId destination{};
  /// When.
  CopyOrder order = CopyOrder::kBeforeStep;
  /// Why.
  CopyReason reason = CopyReason::kPartialReuse;

  /// Field by field.
  friend constexpr bool operator==(const PageCopy&, const PageCopy&) = default;
};

}  // namespace kvpool
