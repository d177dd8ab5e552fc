// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/kernels/params.hpp>

/// The kernels on the host, over the same params with host addresses: what a kernel must compute,
/// where no GPU is. Simple and slow.
namespace kvpool::kernels::reference {

/// Writes new tokens into pages, bit for bit.
/// @return what `check` says; `kOutOfRange` for a slot below -1, before anything is written
[[nodiscard]] Result<void> append(const AppendParams& params);

/// Attention over pages. Scores, softmax and outputs are accumulated in fp32, key by key, and
/// rounded once, to nearest even. Slots that a token does not see are not read, and no table entry
/// but those of visible keys is.
/// @return what `check` says; `kOutOfRange`, before anything is written, for a `q_indptr` that does
///   not ascend from 0 to `tokens`, a row of more than `max_query_tokens`, a negative length, a
///   length beyond the table's row or a negative entry in it
[[nodiscard]] Result<void> attention(const AttentionParams& params);

/// Merges partial results of attention over parts of each sequence, in fp32, part by part, and
/// rounds once, to nearest even. Partial outputs without weight are not read.
/// @return what `check` says; `kOutOfRange`, before anything is written, for a `part_indptr` that
///   does not ascend from 0
[[nodiscard]] Result<void> merge(const MergeParams& params);

/// Copies pages.
/// @return what `check` says; before anything is written `kOutOfRange` for a negative entry, and
///   `kInvalidArgument` for an entry that is written twice, or read and written within one pool
[[nodiscard]] Result<void> copy_pages(const PageCopyParams& params);

/// Overwrites changed entries and lengths of page tables. Of a `delta_count` outside of 0 to
/// `delta_capacity` the nearest of these counts.
/// @return what `check` says; before anything is written `kOutOfRange` for a place outside of the
///   table, a negative entry or length, and `kInvalidArgument` for a place that changes twice
[[nodiscard]] Result<void> apply_table_deltas(const TableDeltaParams& params);

/// Makes a table with a row for each query token.
/// @return what `check` says; `kOutOfRange`, before anything is written, for a `q_indptr` that does
///   not ascend from 0 to `tokens`, a negative length or one beyond the table's row
[[nodiscard]] Result<void> expand_decode_rows(const DecodeRowParams& params);

}  // namespace kvpool::kernels::reference
