// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/layout/pool_descriptor.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// How long a group keeps a token's page.
enum class GroupKind : std::uint8_t {
  kFull,           ///< as long as the sequence (MLA and indexers are full)
  kSlidingWindow,  ///< while one of the last `extent` tokens is in it
  kChunked,        ///< while the current chunk of `extent` tokens is in it
  kCross,          ///< the encoder's tokens, as long as the sequence
  kState,          ///< one slot per sequence, and snapshots
};

/// Stable lower-case name: `full`, `sliding_window`, `chunked`, `cross`, `state`.
[[nodiscard]] std::string_view to_string(GroupKind kind) noexcept;

/// What the block manager needs to know about one group of one pool. `GroupId` counts the groups of
/// all pools, in the order of the descriptors.
struct CacheGroup {
  /// `<pool>/<group>`, as in `target/full` or `draft/sliding_window_1024`.
  std::string name{};
  /// Its pool, an index into the manager's pools.
  PoolId pool{};
  /// Its place among the groups of the pool.
  std::int32_t group_in_pool = 0;
  /// How long pages are kept.
  GroupKind kind = GroupKind::kFull;
  /// True for caches of the drafter (pools of role `draft`, and `draft_state`).
  bool is_draft = false;
  /// Token slots of a page; 0 for states.
  Tokens tokens_per_block{};
  /// Window or chunk in tokens; 0 otherwise.
  Tokens extent{};
  /// Bytes of a page or slot.
  Bytes page_bytes{};
  /// Pages that a slab of the pool holds.
  std::int64_t pages_per_slab = 1;
  /// Length from which on the pool's model stops to follow a sequence; only for drafters.
  std::optional<Tokens> max_len{};

  /// Field by field.
  friend bool operator==(const CacheGroup&, const CacheGroup&) = default;
};

/// The groups of `pools`, in order.
/// @param draft_max_len longest sequence that the drafter follows, if it is limited
/// @return the groups; `kInvalidArgument` for a pool without groups, a page without slots, or a
///   window without extent
[[nodiscard]] Result<std::vector<CacheGroup>> cache_groups(std::span<const PoolDescriptor> pools,
                                                           std::optional<Tokens> draft_max_len);

}  // namespace kvpool
