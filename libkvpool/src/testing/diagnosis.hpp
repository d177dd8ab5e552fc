// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>
#include <kvpool/layout/pool_descriptor.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvpool::testing::detail {

/// Pools that are compared together: one, or all of a role.
using PoolRefs = std::span<const PoolDescriptor* const>;

/// Size of pools: their rows, and their rows in whole granules.
struct PoolBytes {
  /// Sum of `PoolDescriptor::bytes()`.
  Bytes rows;
  /// Sum of `PoolDescriptor::charged_bytes()`.
  Bytes charged;

  /// Exactly the one or exactly the other.
  [[nodiscard]] bool matches(Bytes held) const noexcept { return held == rows || held == charged; }
};

/// Size of pools as they are.
[[nodiscard]] PoolBytes size_of(PoolRefs pools);

/// Size of pools that are laid out again with as many pages after `change`. Nothing when `change`
/// leaves all of them as they are (it returns false for each) or the result has no layout.
[[nodiscard]] std::optional<PoolBytes> size_after(PoolRefs pools,
                                                  const std::function<bool(PoolShape&)>& change);

/// Token slots of a pool's pages; 0 for a pool of states.
[[nodiscard]] Tokens page_tokens(const PoolDescriptor& pool) noexcept;

/// Gives every page another number of token slots.
/// @return whether that changes anything
bool set_page_tokens(PoolShape& shape, Tokens tokens_per_block);

/// Why `held` bytes may be held instead of what was charged: everything that explains the amount
/// exactly, the likeliest first, or by how much it differs.
/// @param others all pools of the plan: what another pool has is likely to have been mixed up
/// @param allocations how many allocations were summed
[[nodiscard]] std::string diagnose(PoolRefs pools, PoolRefs others, Bytes held,
                                   std::size_t allocations);

/// What tells an allocated pool from a planned one of the same name; empty when nothing does.
[[nodiscard]] std::string descriptor_difference(const PoolDescriptor& planned,
                                                const PoolDescriptor& allocated);

}  // namespace kvpool::testing::detail
