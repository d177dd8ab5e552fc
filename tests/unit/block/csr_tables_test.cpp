// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/csr_tables.hpp>

#include "support/cache_pools.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace kvpool {
namespace {

using test::admitted;
using test::cache_manager;
using test::cache_pool;
using test::tokens_from;

using Numbers = std::vector<std::int32_t>;

/// Entries of blocks [first, end) of a sequence.
Numbers entries(const BlockManager& manager, SequenceId sequence, GroupId group, std::size_t first,
                std::size_t end) {
  const GroupView view = manager.view(sequence, group);
  const auto part = view.entries.subspan(first, end - first);
  return {part.begin(), part.end()};
}

TEST_CASE("compressed rows name the pages of each sequence", "[block][csr_tables]") {
  BlockManager manager = cache_manager({cache_pool("target", PoolRole::kTarget, {{}}, 4, 40)},
                                       {.max_sequences = Sequences{4}, .max_length = Tokens{64}});
  const std::array sequences = {
      admitted(manager, tokens_from(100, 9)), admitted(manager, tokens_from(200, 8)),
      SequenceId{.index = 3, .generation = 77}, admitted(manager, tokens_from(300, 1))};
  CsrTables tables;
  build_csr(manager, GroupId{0}, sequences, {}, tables);
  CHECK(tables.indptr == Numbers{0, 3, 5, 5, 6});
  CHECK(tables.last_page_len == Numbers{1, 4, 0, 1});
  CHECK(tables.first_token == Numbers{0, 0, 0, 0});
  Numbers expected = entries(manager, sequences[0], GroupId{0}, 0, 3);
  for (const std::size_t row : {std::size_t{1}, std::size_t{3}}) {
    const Numbers more = entries(manager, sequences[row], GroupId{0}, 0, row == 1 ? 2 : 1);
    expected.insert(expected.end(), more.begin(), more.end());
  }
  CHECK(tables.indices == expected);
}

TEST_CASE("compressed rows end where the engine says", "[block][csr_tables]") {
  BlockManager manager = cache_manager({cache_pool("target", PoolRole::kTarget, {{}}, 4, 40)},
                                       {.max_sequences = Sequences{4}, .max_length = Tokens{64}});
  const std::array sequences = {
      admitted(manager, tokens_from(100, 9)), admitted(manager, tokens_from(200, 9)),
      admitted(manager, tokens_from(300, 9)), admitted(manager, tokens_from(400, 9))};
  CsrTables tables;
  const std::array lengths = {5, 0, 100};
  build_csr(manager, GroupId{0}, sequences, lengths, tables);
  CHECK(tables.indptr == Numbers{0, 2, 2, 5, 8});
  CHECK(tables.last_page_len == Numbers{1, 0, 1, 1});
  // Written over, not behind.
  build_csr(manager, GroupId{0}, std::span{sequences}.first(1), {}, tables);
  CHECK(tables.indptr == Numbers{0, 3});
  CHECK(tables.indices == entries(manager, sequences[0], GroupId{0}, 0, 3));
  build_csr(manager, GroupId{0}, {}, {}, tables);
  CHECK(tables.indptr == Numbers{0});
  CHECK(tables.indices.empty());
}

TEST_CASE("of a window only the pages are named that are held", "[block][csr_tables]") {
  BlockManager manager = cache_manager(
      {cache_pool("target", PoolRole::kTarget,
                  {{}, {.kind = SpanKind::kSlidingWindow, .extent = Tokens{8}}}, 4, 200)},
      {.max_sequences = Sequences{4}, .max_length = Tokens{64}});
  REQUIRE(manager.begin_step(Epoch{1}, Instant{1}) == BlockStatus::kOk);
  const SequenceId sequence = admitted(manager, tokens_from(100, 30));
  REQUIRE(manager.complete_until(Epoch{1}) == BlockStatus::kOk);
  REQUIRE(manager.begin_step(Epoch{2}, Instant{2}) == BlockStatus::kOk);
  REQUIRE(manager.append(sequence, Tokens{1}) == BlockStatus::kOk);
  const std::int32_t token = 7;
  REQUIRE(manager.commit(sequence, std::span{&token, 1}) == BlockStatus::kOk);

  // 31 tokens, of which 30 have settled. The next one to be settled, 30, sees 23..30: block 5 on.
  const BlockRange held = manager.view(sequence, GroupId{1}).held;
  REQUIRE(held == BlockRange{BlockIndex{5}, BlockIndex{8}});
  CsrTables tables;
  build_csr(manager, GroupId{1}, std::span{&sequence, 1}, {}, tables);
  CHECK(tables.indptr == Numbers{0, 3});
  CHECK(tables.first_token == Numbers{20});
  CHECK(tables.last_page_len == Numbers{3});
  CHECK(tables.indices == entries(manager, sequence, GroupId{1}, 5, 8));
}

TEST_CASE("a state is one page of one token", "[block][csr_tables]") {
  BlockManager manager =
      cache_manager({cache_pool("target", PoolRole::kTarget, {{}}, 4, 40), test::state_pool(9)},
                    {.max_sequences = Sequences{4}, .max_length = Tokens{64}});
  const SequenceId sequence = admitted(manager, tokens_from(100, 9));
  CsrTables tables;
  const std::array lengths = {0};
  build_csr(manager, GroupId{1}, std::span{&sequence, 1}, lengths, tables);
  CHECK(tables.indptr == Numbers{0, 1});
  CHECK(tables.last_page_len == Numbers{1});
  CHECK(tables.indices == entries(manager, sequence, GroupId{1}, 0, 1));
}

}  // namespace
}  // namespace kvpool
