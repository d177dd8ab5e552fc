// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

/// Marks functions that kernels may call too.
#if defined(__CUDACC__)
#define KVPOOL_HOST_DEVICE __host__ __device__
#else
#define KVPOOL_HOST_DEVICE
#endif

namespace kvpool {

/// The page tables of a batch over one pool, as kernels take them. It owns nothing; all addresses
/// are of the memory the reader runs on. Numbers are plain integers with the unit in the name, so
/// that the header needs nothing but the language.
///
/// The page that holds token `t` of row `r` starts at
/// `base_address + entries[r * row_stride_entries + t / tokens_per_block] * unit_bytes`.
struct PageTableView {
  /// [rows, row_stride_entries] Starts of pages, in units of `unit_bytes` from `base_address`, not
  /// negative. Of row r the first ceil(lengths[r] / tokens_per_block) are defined; a reader does
  /// not follow the others.
  const std::int32_t* entries = nullptr;
  /// [rows] Tokens of each sequence, >= 0. A padded row has 0.
  const std::int32_t* lengths = nullptr;
  /// Address of the pool's first byte, where its reserved pages are.
  std::uint64_t base_address = 0;
  /// Entries from one row of `entries` to the next; at least the blocks of the longest row.
  std::int64_t row_stride_entries = 0;
  /// Bytes that an entry counts in: the greatest common divisor of the pool's page sizes, >= 16.
  std::int64_t unit_bytes = 0;
  /// Sequences in the batch, padded ones included.
  std::int32_t rows = 0;
  /// Tokens that a block holds.
  std::int32_t tokens_per_block = 0;
};

static_assert(std::is_trivially_copyable_v<PageTableView>);
static_assert(std::is_standard_layout_v<PageTableView>);
static_assert(sizeof(PageTableView) == 48);

/// One changed entry of the page tables of a batch: `entries[row, column] = entry`.
struct PageTableDelta {
  /// Row of the table: the sequence's place in the batch.
  std::int32_t row = 0;
  /// Column of the table: the block's place in the sequence.
  std::int32_t column = 0;
  /// The new entry, in units of the pool's `unit_bytes`.
  std::int32_t entry = 0;

  /// Field by field.
  friend constexpr bool operator==(const PageTableDelta&, const PageTableDelta&) = default;
};

static_assert(std::is_trivially_copyable_v<PageTableDelta>);
static_assert(std::is_standard_layout_v<PageTableDelta>);
static_assert(sizeof(PageTableDelta) == 12);

/// Address of the page that holds block `block` of row `row`.
/// @pre 0 <= row < rows and 0 <= block < ceil(lengths[row] / tokens_per_block)
[[nodiscard]] KVPOOL_HOST_DEVICE constexpr std::uint64_t page_address(const PageTableView& view,
                                                                      std::int64_t row,
                                                                      std::int64_t block) noexcept {
  const std::int64_t entry = view.entries[row * view.row_stride_entries + block];
  return view.base_address + static_cast<std::uint64_t>(entry * view.unit_bytes);
}

}  // namespace kvpool
