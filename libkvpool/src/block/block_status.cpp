// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/block_status.hpp>

namespace kvpool {

std::string_view to_string(BlockStatus status) noexcept {
  switch (status) {
    case BlockStatus::kOk: return "ok";
    case BlockStatus::kNoPages: return "no_pages";
    case BlockStatus::kUnsettled: return "unsettled";
    case BlockStatus::kOverQuota: return "over_quota";
    case BlockStatus::kNoSlot: return "no_slot";
    case BlockStatus::kTooLong: return "too_long";
    case BlockStatus::kStaleId: return "stale_id";
    case BlockStatus::kInvalid: return "invalid";
    case BlockStatus::kCopiesFull: return "copies_full";
  }
  return "invalid";
}

}  // namespace kvpool
