// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/decode_rows.hpp>

#include <kvpool/kernels/reference.hpp>

#include "support/cache_pools.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvpool {
namespace {

using test::admitted;
using test::cache_manager;
using test::cache_pool;
using test::tokens_from;

using Numbers = std::vector<std::int32_t>;

TEST_CASE("every query token is a row that sees what is before it", "[block][decode_rows]") {
  DecodeRows rows;
  const std::array step = {StepTokens{.table_row = 2, .first_position = 10, .count = 3},
                           StepTokens{.table_row = 0, .first_position = 0, .count = 2},
                           StepTokens{.table_row = 1, .first_position = 5, .count = 0},
                           StepTokens{.table_row = 3, .first_position = 131'071, .count = 1}};
  expand_decode_rows(step, rows);
  CHECK(rows.table_row == Numbers{2, 2, 2, 0, 0, 3});
  CHECK(rows.position == Numbers{10, 11, 12, 0, 1, 131'071});
  CHECK(rows.length == Numbers{11, 12, 13, 1, 2, 131'072});

  const std::int32_t* const kept = rows.position.data();
  expand_decode_rows(std::span{step}.first(1), rows);
  CHECK(rows.position == Numbers{10, 11, 12});
  CHECK(rows.position.data() == kept);
}

TEST_CASE("an expanded table repeats the row of each token", "[block][decode_rows]") {
  const std::array<std::int32_t, 12> entries = {5, 6, 7, 8, 50, 60, 70, 80, 500, 600, 700, 800};
  const std::array<std::int32_t, 3> lengths = {16, 16, 16};
  const PageTableView tables{.entries = entries.data(),
                             .lengths = lengths.data(),
                             .base_address = 4096,
                             .row_stride_entries = 4,
                             .unit_bytes = 32,
                             .rows = 3,
                             .tokens_per_block = 4};
  DecodeRows rows;
  const std::array step = {StepTokens{.table_row = 2, .first_position = 7, .count = 2},
                           StepTokens{.table_row = 0, .first_position = 15, .count = 1}};
  expand_decode_rows(step, rows);
  Numbers expanded(12, -1);
  const PageTableView view = expand_table(tables, rows, expanded);
  // Positions 7 and 8 need two and three blocks of row 2; what is behind is not written.
  CHECK(expanded == Numbers{500, 600, -1, -1, 500, 600, 700, -1, 5, 6, 7, 8});
  CHECK(view.entries == expanded.data());
  CHECK(view.lengths == rows.length.data());
  CHECK(view.rows == 3);
  CHECK(view.row_stride_entries == 4);
  CHECK(view.base_address == 4096);
  CHECK(view.unit_bytes == 32);
  CHECK(view.tokens_per_block == 4);
}

TEST_CASE("decode rows compute what the packed step computes", "[block][decode_rows]") {
  // Two sequences of 9 and 6 tokens in pages of 4 slots, of one head of 8 numbers.
  constexpr std::int32_t kDim = 8;
  std::vector<float> pool(std::size_t{8} * 2 * 4 * kDim);
  for (std::size_t i = 0; i < pool.size(); ++i) {
    pool[i] = static_cast<float>(static_cast<std::int64_t>(i * 37 % 101) - 50) / 50.0F;
  }
  const std::array<std::int32_t, 6> entries = {3, 1, 6, 2, 5, 0};
  const std::array<std::int32_t, 2> lengths = {9, 6};
  const std::array<std::int32_t, 3> q_indptr = {0, 3, 5};
  std::vector<float> queries(std::size_t{5} * kDim);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    queries[i] = static_cast<float>(i % 11) / 3.0F - 1.5F;
  }
  const auto operand = [&](std::size_t half) {
    return kernels::CacheOperand{.base = pool.data() + half * 4 * kDim,
                                 .entry_stride_bytes = 2 * 4 * kDim * 4,
                                 .head_stride_bytes = 4 * kDim * 4,
                                 .slot_stride_bytes = kDim * 4,
                                 .dim = kDim,
                                 .type = kernels::ElementType::kFp32};
  };
  std::vector<float> packed(queries.size());
  kernels::AttentionParams params{.q = queries.data(),
                                  .out = packed.data(),
                                  .q_indptr = q_indptr.data(),
                                  .table = {.entries = entries.data(),
                                            .lengths = lengths.data(),
                                            .row_stride_entries = 3,
                                            .unit_bytes = 2 * 4 * kDim * 4,
                                            .rows = 2,
                                            .tokens_per_block = 4},
                                  .k = operand(0),
                                  .v = operand(1),
                                  .q_token_stride = kDim,
                                  .q_head_stride = kDim,
                                  .out_token_stride = kDim,
                                  .out_head_stride = kDim,
                                  .tokens = 5,
                                  .max_query_tokens = 3,
                                  .query_heads = 1,
                                  .kv_heads = 1,
                                  .window_left = 4,
                                  .q_type = kernels::ElementType::kFp32,
                                  .out_type = kernels::ElementType::kFp32};
  REQUIRE(kernels::reference::attention(params).has_value());

  DecodeRows rows;
  const std::array step = {StepTokens{.table_row = 0, .first_position = 6, .count = 3},
                           StepTokens{.table_row = 1, .first_position = 4, .count = 2}};
  expand_decode_rows(step, rows);
  Numbers expanded;
  params.table = expand_table(params.table, rows, expanded);
  params.q_indptr = nullptr;
  params.max_query_tokens = 1;
  std::vector<float> row_by_row(queries.size());
  params.out = row_by_row.data();
  REQUIRE(kernels::reference::attention(params).has_value());
  CHECK(row_by_row == packed);
}

TEST_CASE("slots are entries times tokens, as append takes them", "[block][decode_rows]") {
  // The window's pages are half a slab, so that entries are not page numbers.
  BlockManager manager = cache_manager(
      {cache_pool("target", PoolRole::kTarget,
                  {{}, {.kind = SpanKind::kSlidingWindow, .extent = Tokens{8}}}, 4, 200),
       cache_pool("draft", PoolRole::kDraft, {{}}, 8, 40)},
      {.max_sequences = Sequences{4}, .max_length = Tokens{64}});
  REQUIRE(manager.begin_step(Epoch{1}, Instant{1}) == BlockStatus::kOk);
  const std::array sequences = {admitted(manager, tokens_from(100, 30)),
                                SequenceId{.index = 3, .generation = 9},
                                admitted(manager, tokens_from(200, 6), DraftMode::kOff)};
  REQUIRE(manager.complete_until(Epoch{1}) == BlockStatus::kOk);
  REQUIRE(manager.begin_step(Epoch{2}, Instant{2}) == BlockStatus::kOk);
  REQUIRE(manager.append(sequences[0], Tokens{1}) == BlockStatus::kOk);
  const std::int32_t token = 7;
  REQUIRE(manager.commit(sequences[0], std::span{&token, 1}) == BlockStatus::kOk);

  const auto entry = [&](std::size_t row, GroupId group, std::size_t block) {
    return std::int64_t{manager.view(sequences[row], group).entries[block]};
  };
  std::vector<std::int64_t> slots;
  const std::array step = {StepTokens{.table_row = 2, .first_position = 3, .count = 4},
                           StepTokens{.table_row = 0, .first_position = 30, .count = 2},
                           StepTokens{.table_row = 1, .first_position = 0, .count = 1},
                           StepTokens{.table_row = 0, .first_position = 2, .count = 1}};
  slot_mapping(manager, GroupId{0}, sequences, step, slots);
  CHECK(slots == std::vector<std::int64_t>{
                     entry(2, GroupId{0}, 0) * 4 + 3, entry(2, GroupId{0}, 1) * 4,
                     entry(2, GroupId{0}, 1) * 4 + 1,
                     // Six tokens are reserved, 0 to 5.
                     -1, entry(0, GroupId{0}, 7) * 4 + 2, -1, -1, entry(0, GroupId{0}, 0) * 4 + 2});
  // Position 2 is behind the window.
  slot_mapping(manager, GroupId{1}, sequences, std::span{step}.last(1), slots);
  CHECK(slots == std::vector<std::int64_t>{-1});
  slot_mapping(manager, GroupId{1}, sequences, std::span{step}.subspan(1, 1), slots);
  CHECK(slots == std::vector<std::int64_t>{entry(0, GroupId{1}, 7) * 4 + 2, -1});
  // One sequence has no drafter.
  slot_mapping(manager, GroupId{2}, sequences, std::span{step}.first(2), slots);
  CHECK(slots == std::vector<std::int64_t>{-1, -1, -1, -1, entry(0, GroupId{2}, 3) * 8 + 6, -1});
}

TEST_CASE("an idle row has no sequence, and an id by default names none", "[block][decode_rows]") {
  BlockManager manager =
      test::cache_manager({test::cache_pool("target", PoolRole::kTarget, {{}}, 4, 9)},
                          {.max_sequences = Sequences{2}, .max_length = Tokens{32}});
  const std::array sequences = {test::admitted(manager, test::tokens_from(0, 5)), SequenceId{}};
  const std::array step = {StepTokens{.table_row = 0, .first_position = 3, .count = 1},
                           StepTokens{.table_row = 1, .first_position = 3, .count = 1}};
  std::vector<std::int64_t> slots;
  slot_mapping(manager, GroupId{0}, sequences, step, slots);
  REQUIRE(slots.size() == 2);
  CHECK(slots[0] >= 0);
  CHECK(slots[1] == -1);
  CHECK(manager.is_live(SequenceId{.index = 0, .generation = 0}));
  CHECK_FALSE(manager.is_live(SequenceId{}));
  CHECK(manager.append(kNoSequence, Tokens{1}) == BlockStatus::kStaleId);
}

}  // namespace
}  // namespace kvpool
