// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/kernels/cache_operand.hpp>

#include <cstdint>
#include <type_traits>

namespace kvpool::kernels {

/// Making a table with a row for each query token of a batch, all of which see the whole sequence:
/// the block of a drafter without a causal mask, for kernels with one query token a row. Once a
/// step and group of layers; captured with it, it follows the device's lengths.
struct DecodeRowParams {
  /// [rows, row_stride_entries] The batch's table.
  const std::int32_t* entries = nullptr;
  /// [rows] Tokens of each sequence, its own query tokens included.
  const std::int32_t* lengths = nullptr;
  /// [rows + 1] First query token of each row, ascending, from 0 to `tokens`; or null: every row
  /// has `queries`.
  const std::int32_t* q_indptr = nullptr;
  /// [tokens, row_stride_entries] Row t gets the pages of the sequence of query token t. What is
  /// behind them is not written.
  std::int32_t* row_entries = nullptr;
  /// [tokens] Tokens of the sequence of query token t.
  std::int32_t* row_lengths = nullptr;
  /// Entries from one row of either table to the next.
  std::int64_t row_stride_entries = 0;
  /// Sequences in the batch, padded ones included.
  std::int32_t rows = 0;
  /// Query tokens of the batch: rows of the new table.
  std::int32_t tokens = 0;
  /// Query tokens of every row; not read if `q_indptr` is set.
  std::int32_t queries = 0;
  /// Token slots of a page.
  std::int32_t tokens_per_block = 0;
};

static_assert(std::is_trivially_copyable_v<DecodeRowParams>);
static_assert(std::is_standard_layout_v<DecodeRowParams>);
static_assert(sizeof(DecodeRowParams) == 64);

/// Whether the table can be made: sizes, alignment, null pointers. Contents of device memory are
/// not read.
/// @return `kInvalidArgument` with the field as key
[[nodiscard]] Result<void> check(const DecodeRowParams& params);

}  // namespace kvpool::kernels
