// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace kvpool {

/// A name for one thing of the kind `Tag`. Ids compare, and have no arithmetic; "none" is an empty
/// `std::optional`.
template <typename Tag, typename Rep>
class Id {
 public:
  /// The underlying integer type.
  using rep = Rep;

  /// Id 0.
  constexpr Id() noexcept = default;
  /// Names the thing with this index.
  constexpr explicit Id(Rep value) noexcept : value_{value} {}

  /// The index behind the name.
  [[nodiscard]] constexpr Rep value() const noexcept { return value_; }

  /// Orders by index.
  friend constexpr auto operator<=>(Id, Id) noexcept = default;

 private:
  Rep value_{};
};

/// A physical page of one pool (the row of the pool's view). 32 bits, as in block tables.
using PageId = Id<struct PageIdTag, std::int32_t>;
/// A logical block of a sequence: token position / `tokens_per_block`.
using BlockIndex = Id<struct BlockIndexTag, std::int64_t>;
/// A pool of a `PoolPlan`, in plan order.
using PoolId = Id<struct PoolIdTag, std::int32_t>;
/// A layer group: of its pool, or, for a block manager, of all pools in order.
using GroupId = Id<struct GroupIdTag, std::int32_t>;
/// A layer of a model, counted from 0.
using LayerIndex = Id<struct LayerIndexTag, std::int32_t>;
/// A point on the engine's step clock; frees are fenced by epochs.
using Epoch = Id<struct EpochTag, std::uint64_t>;

/// A sequence: a slot and the generation that tells its present user from earlier ones. By default
/// none, ever: for rows of a batch that are idle.
struct SequenceId {
  /// Slot in the manager's table.
  std::uint32_t index = 0xFFFF'FFFF;
  /// How often the slot has been handed out before.
  std::uint32_t generation = 0xFFFF'FFFF;

  /// Equal when slot and generation are.
  friend constexpr bool operator==(SequenceId, SequenceId) noexcept = default;
};

/// The id that names no sequence.
inline constexpr SequenceId kNoSequence{};

}  // namespace kvpool
