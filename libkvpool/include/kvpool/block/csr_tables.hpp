// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/core/ids.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace kvpool {

/// Page tables of a batch in one group, in compressed rows, as the FlashInfer family of kernels
/// takes them. Row r has the pages `indices[indptr[r] .. indptr[r + 1])`, of which the last holds
/// `last_page_len[r]` tokens (1..tokens_per_block; 0 for a row without pages).
struct CsrTables {
  /// [rows + 1] Where rows start in `indices`.
  std::vector<std::int32_t> indptr{};
  /// Pages, as table entries. Of a window only the pages that are held.
  std::vector<std::int32_t> indices{};
  /// [rows] Tokens in the last page; a state counts as one.
  std::vector<std::int32_t> last_page_len{};
  /// [rows] Position of the first token of the row's first page: 0, but for windows.
  std::vector<std::int32_t> first_token{};
};

/// Writes the tables of `sequences`, in order, over `tables`. Allocates only while the vectors are
/// smaller than the batch. A stale id gives a row without pages.
/// @param lengths tokens of each sequence that kernels see; shorter than `sequences`, or empty, for
///   all that are reserved. More than are reserved counts as these.
void build_csr(const BlockManager& manager, GroupId group, std::span<const SequenceId> sequences,
               std::span<const std::int32_t> lengths, CsrTables& tables);

}  // namespace kvpool
