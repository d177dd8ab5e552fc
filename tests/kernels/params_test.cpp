// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The params are frozen: these offsets and sizes do not change.
#include <kvpool/kernels/params.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kvpool::kernels {
namespace {

static_assert(offsetof(CacheOperand, base) == 0);
static_assert(offsetof(CacheOperand, entry_stride_bytes) == 8);
static_assert(offsetof(CacheOperand, head_stride_bytes) == 16);
static_assert(offsetof(CacheOperand, slot_stride_bytes) == 24);
static_assert(offsetof(CacheOperand, dim) == 32);
static_assert(offsetof(CacheOperand, type) == 36);

static_assert(offsetof(AttentionParams, q) == 0);
static_assert(offsetof(AttentionParams, out) == 8);
static_assert(offsetof(AttentionParams, lse) == 16);
static_assert(offsetof(AttentionParams, sinks) == 24);
static_assert(offsetof(AttentionParams, q_indptr) == 32);
static_assert(offsetof(AttentionParams, workspace) == 40);
static_assert(offsetof(AttentionParams, workspace_bytes) == 48);
static_assert(offsetof(AttentionParams, table) == 56);
static_assert(offsetof(AttentionParams, k) == 104);
static_assert(offsetof(AttentionParams, v) == 144);
static_assert(offsetof(AttentionParams, k_scales) == 184);
static_assert(offsetof(AttentionParams, v_scales) == 224);
static_assert(offsetof(AttentionParams, split) == 264);
static_assert(offsetof(AttentionParams, q_token_stride) == 296);
static_assert(offsetof(AttentionParams, lse_head_stride) == 336);
static_assert(offsetof(AttentionParams, scale) == 344);
static_assert(offsetof(AttentionParams, v_scale) == 356);
static_assert(offsetof(AttentionParams, tokens) == 360);
static_assert(offsetof(AttentionParams, kv_heads) == 372);
static_assert(offsetof(AttentionParams, window_left) == 376);
static_assert(offsetof(AttentionParams, causal) == 384);
static_assert(offsetof(AttentionParams, lse_base) == 396);

static_assert(offsetof(AppendParams, slot_mapping) == 16);
static_assert(offsetof(AppendParams, k_cache) == 24);
static_assert(offsetof(AppendParams, v_cache) == 64);
static_assert(offsetof(AppendParams, k_token_stride) == 104);
static_assert(offsetof(AppendParams, k_scale) == 136);
static_assert(offsetof(AppendParams, tokens) == 144);
static_assert(offsetof(AppendParams, source_type) == 156);

static_assert(offsetof(PageCopyParams, pairs) == 16);
static_assert(offsetof(PageCopyParams, part_bytes) == 56);
static_assert(offsetof(PageCopyParams, count) == 68);
static_assert(offsetof(MergeParams, partial_row_stride) == 48);
static_assert(offsetof(MergeParams, tokens) == 88);
static_assert(offsetof(MergeParams, lse_base) == 108);
static_assert(offsetof(TableDeltaParams, delta_count) == 24);
static_assert(offsetof(TableDeltaParams, rows) == 52);

static_assert(std::is_same_v<decltype(AttentionParams::q_token_stride), std::int64_t>);
static_assert(std::is_same_v<decltype(CacheOperand::entry_stride_bytes), std::int64_t>);
static_assert(std::is_same_v<decltype(AppendParams::v_head_stride), std::int64_t>);

TEST_CASE("the row of an entry, a head and a slot lies beyond 2^32 bytes where it has to",
          "[kernels]") {
  constexpr CacheOperand kCache{.entry_stride_bytes = 81'920,
                                .head_stride_bytes = 8'192,
                                .slot_stride_bytes = 128,
                                .dim = 64};
  STATIC_REQUIRE(row_offset(kCache, 3, 2, 5) == 262'784);
  STATIC_REQUIRE(row_offset(kCache, 2'000'000'000, 0, 0) == 163'840'000'000'000);
}

TEST_CASE("keys that a token sees", "[kernels]") {
  const auto keys = [](AttentionParams params, std::int64_t length, std::int64_t q_len,
                       std::int64_t t) {
    const KeyRange range = visible_keys(params, length, q_len, t);
    return range.end <= range.first ? std::pair<std::int64_t, std::int64_t>{0, 0}
                                    : std::pair{range.first, range.end};
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  AttentionParams params;
  CHECK(keys(params, 10, 3, 0) == Pair{0, 8});
  CHECK(keys(params, 10, 3, 2) == Pair{0, 10});
  CHECK(keys(params, 2, 3, 0) == Pair{0, 0});  // stands before the first key
  params.window_left = 4;
  CHECK(keys(params, 10, 3, 0) == Pair{3, 8});
  params.causal = 0;
  CHECK(keys(params, 10, 3, 0) == Pair{3, 10});
  params.window_right = 1;
  CHECK(keys(params, 10, 3, 0) == Pair{3, 9});
  CHECK(keys(params, 0, 3, 0) == Pair{0, 0});
}

TEST_CASE("first query of a row, with and without q_indptr", "[kernels]") {
  AttentionParams params;
  params.max_query_tokens = 4;
  CHECK(first_query(params, 3) == 12);
  constexpr std::int32_t kIndptr[] = {0, 2, 2, 7};
  params.q_indptr = kIndptr;
  CHECK(first_query(params, 3) == 7);
}

}  // namespace
}  // namespace kvpool::kernels
