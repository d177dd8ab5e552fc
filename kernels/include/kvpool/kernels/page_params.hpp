// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/page_table_view.hpp>
#include <kvpool/kernels/cache_operand.hpp>

#include <cstdint>
#include <type_traits>

namespace kvpool::kernels {

/// Writing new tokens into the pages of one layer. Token t goes to entry
/// slot_mapping[t] / tokens_per_block, slot slot_mapping[t] % tokens_per_block. Two tokens of one
/// slot are the caller's mistake: which one stays is not said.
struct AppendParams {
  /// [tokens, kv_heads, k_cache.dim] New keys, or MLA records.
  const void* k = nullptr;
  /// [tokens, kv_heads, v_cache.dim] New values; null where only keys are written (MLA).
  const void* v = nullptr;
  /// [tokens] entry * tokens_per_block + slot in the page; -1: the token is skipped. Anything below
  /// is the caller's mistake: the reference returns `kOutOfRange` for it and writes nothing; the
  /// kernel, which cannot return, skips the token, and in builds without NDEBUG traps.
  const std::int64_t* slot_mapping = nullptr;
  /// Where keys go.
  CacheOperand k_cache{};
  /// Where values go; not read if `v` is null.
  CacheOperand v_cache{};
  /// Elements of `k` from one token to the next.
  std::int64_t k_token_stride = 0;
  /// Elements of `k` from one head to the next.
  std::int64_t k_head_stride = 0;
  /// Elements of `v` from one token to the next.
  std::int64_t v_token_stride = 0;
  /// Elements of `v` from one head to the next.
  std::int64_t v_head_stride = 0;
  /// What stored keys will be multiplied by, so a key is divided by it; 1 unless the cache is
  /// quantised.
  float k_scale = 1.0F;
  /// What stored values will be multiplied by; 1 unless the cache is quantised.
  float v_scale = 1.0F;
  /// New tokens.
  std::int32_t tokens = 0;
  /// KV heads of one rank; 1 for MLA.
  std::int32_t kv_heads = 0;
  /// Token slots of a page.
  std::int32_t tokens_per_block = 0;
  /// Format of `k` and `v`. Unless the cache is quantised it is that of the cache.
  ElementType source_type = ElementType::kBf16;
};

static_assert(std::is_trivially_copyable_v<AppendParams>);
static_assert(std::is_standard_layout_v<AppendParams>);
static_assert(sizeof(AppendParams) == 160);

/// One page to copy, as table entries.
struct PageCopyPair {
  /// Entry to read.
  std::int32_t source = 0;
  /// Entry to write.
  std::int32_t destination = 0;
};

static_assert(std::is_trivially_copyable_v<PageCopyPair>);
static_assert(std::is_standard_layout_v<PageCopyPair>);
static_assert(sizeof(PageCopyPair) == 8);

/// Copying pages within a pool or between two pools of equal geometry. A page consists of `parts`
/// pieces of `part_bytes`: one in page-major pools, one per layer in layer-major ones. Piece i of
/// entry e starts at base + e * entry_stride_bytes + i * part_stride_bytes. No page is both read
/// and written, and none is written twice.
struct PageCopyParams {
  /// First piece of entry 0 of the pool that is read, aligned to 16 bytes.
  const void* source = nullptr;
  /// First piece of entry 0 of the pool that is written, aligned to 16 bytes.
  void* destination = nullptr;
  /// [count] Pages to copy.
  const PageCopyPair* pairs = nullptr;
  /// Bytes from one table entry of the source to the next.
  std::int64_t source_entry_stride_bytes = 0;
  /// Bytes from one piece of a source page to the next.
  std::int64_t source_part_stride_bytes = 0;
  /// Bytes from one table entry of the destination to the next.
  std::int64_t destination_entry_stride_bytes = 0;
  /// Bytes from one piece of a destination page to the next.
  std::int64_t destination_part_stride_bytes = 0;
  /// Bytes of one piece, a multiple of 16.
  std::int64_t part_bytes = 0;
  /// Pieces of a page.
  std::int32_t parts = 1;
  /// Pages to copy.
  std::int32_t count = 0;
};

static_assert(std::is_trivially_copyable_v<PageCopyParams>);
static_assert(std::is_standard_layout_v<PageCopyParams>);
static_assert(sizeof(PageCopyParams) == 72);

/// Bringing a batch's page tables on the device up to date.
struct TableDeltaParams {
  /// [rows, row_stride_entries] Entries to change.
  std::int32_t* entries = nullptr;
  /// [rows] Lengths to overwrite, in tokens.
  std::int32_t* lengths = nullptr;
  /// [delta_capacity] Changed entries; no place twice.
  const PageTableDelta* deltas = nullptr;
  /// [1] How many of `deltas` count, so that a captured launch can serve every step; or null: all.
  const std::int32_t* delta_count = nullptr;
  /// [rows] New lengths in tokens, or null: they stay.
  const std::int32_t* new_lengths = nullptr;
  /// Entries from one row of `entries` to the next.
  std::int64_t row_stride_entries = 0;
  /// Deltas that `deltas` has room for.
  std::int32_t delta_capacity = 0;
  /// Sequences in the batch, padded ones included.
  std::int32_t rows = 0;
};

static_assert(std::is_trivially_copyable_v<TableDeltaParams>);
static_assert(std::is_standard_layout_v<TableDeltaParams>);
static_assert(sizeof(TableDeltaParams) == 56);

}  // namespace kvpool::kernels
