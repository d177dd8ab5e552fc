// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/core/ids.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace kvpool {

/// The query tokens of a step, one row each, as kernels with one query token a row take them: built
/// once per step and shared by all layers of all groups.
struct DecodeRows {
  /// [tokens] Row of the batch's tables that the token belongs to.
  std::vector<std::int32_t> table_row{};
  /// [tokens] Position of the token in its sequence.
  std::vector<std::int32_t> position{};
  /// [tokens] Tokens that it sees: position + 1.
  std::vector<std::int32_t> length{};
};

/// A sequence's share of a step.
struct StepTokens {
  /// Row of the batch's tables.
  std::int32_t table_row = 0;
  /// Position of the first query token.
  std::int32_t first_position = 0;
  /// Query tokens, >= 0.
  std::int32_t count = 0;
};

/// Writes the rows of `step`, in order, over `rows`. Allocates only while the vectors are smaller
/// than the step.
void expand_decode_rows(std::span<const StepTokens> step, DecodeRows& rows);

/// Writes the slot of every row in one group over `slots`: entry * slots-per-unit is the kernels'
/// matter, so a slot is `page * tokens_per_block + offset`, with the page counted in pages of the
/// group. -1 for a token that the group has no page for.
void slot_mapping(const BlockManager& manager, GroupId group, std::span<const SequenceId> sequences,
                  std::span<const StepTokens> step, std::vector<std::int64_t>& slots);

}  // namespace kvpool
