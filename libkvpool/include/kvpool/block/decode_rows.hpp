// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/block/page_table_view.hpp>
#include <kvpool/core/ids.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace kvpool {

/// A sequence's share of a step.
struct StepTokens {
  /// Row of the batch's tables.
  std::int32_t table_row = 0;
  /// Position of the first query token.
  std::int32_t first_position = 0;
  /// Query tokens, >= 0.
  std::int32_t count = 0;
};

/// The query tokens of a step, one row each, for kernels with one query token a row. Built once per
/// step and shared by all layers.
struct DecodeRows {
  /// [tokens] Row of the batch's tables that the token belongs to.
  std::vector<std::int32_t> table_row{};
  /// [tokens] Position of the token in its sequence.
  std::vector<std::int32_t> position{};
  /// [tokens] Tokens that it sees: position + 1.
  std::vector<std::int32_t> length{};
};

/// Writes the rows of `step`, in order, over `rows`. Allocates only while the vectors are smaller
/// than the step.
void expand_decode_rows(std::span<const StepTokens> step, DecodeRows& rows);

/// Writes a table with one row for each of `rows` over `entries`, for kernels that find row r's
/// pages at row r: once per step and group, shared by the group's layers. Allocates only while
/// `entries` is smaller.
/// @param tables of the batch, in memory that this process reads
/// @param entries [rows, tables.row_stride_entries]; entries beyond a row's length are not written
/// @return the view of it: `entries`, and the lengths of `rows`
PageTableView expand_table(const PageTableView& tables, const DecodeRows& rows,
                           std::vector<std::int32_t>& entries);

/// Writes the slots of the tokens of `step` in one group over `slots`, as append kernels take them:
/// table entry * tokens_per_block + slot in the page. -1 for a token that the group has no page
/// for: behind its window, beyond what is reserved, of a sequence without drafter or a stale one.
/// Allocates only while `slots` is smaller than the step.
/// @param sequences of the rows of the batch, `kNoSequence` for idle ones;
///   `StepTokens::table_row` is a place in here
/// @pre the group has slots for tokens: neither an encoder's nor a state
void slot_mapping(const BlockManager& manager, GroupId group, std::span<const SequenceId> sequences,
                  std::span<const StepTokens> step, std::vector<std::int64_t>& slots);

}  // namespace kvpool
