// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>
#include <kvpool/plan/pool_plan.hpp>
#include <kvpool/solve/length_mix.hpp>

namespace kvpool {

/// What sequences hold on a rank, and how much of it is filled.
struct SequenceUse {
  /// Bytes of the pages and slots held.
  Bytes held{};
  /// Bytes of the rows in them that hold a token that is still needed, or state.
  Bytes used{};

  /// Bytes held and not used: ends of last pages, of windows, and padding.
  [[nodiscard]] Bytes waste() const noexcept { return held - used; }

  /// Field by field.
  friend bool operator==(const SequenceUse&, const SequenceUse&) = default;
};

/// What one sequence of `length` tokens holds in one pool, from its pages' geometry; pages that a
/// prompt holds only while it is read are not counted.
[[nodiscard]] SequenceUse sequence_use(const Plan& plan, const PoolDescriptor& pool, Tokens length);

/// Over all pools of the smallest rank; 0 without pools.
[[nodiscard]] SequenceUse sequence_use(const Plan& plan, Tokens length);

/// Of the average sequence of a mix, rounded up to bytes.
[[nodiscard]] SequenceUse average_use(const Plan& plan, const LengthMix& mix);

/// Tokens of a mix that lie in full pages of the target, in millionths of all: only these can be
/// found again by a prefix.
[[nodiscard]] std::int64_t shareable_ppm(const LengthMix& mix, Tokens page) noexcept;

}  // namespace kvpool
