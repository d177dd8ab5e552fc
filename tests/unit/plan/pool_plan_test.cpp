// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/pool_plan.hpp>

#include <kvpool/plan/planner.hpp>

#include "support/catch.hpp"
#include "support/models.hpp"

#include <vector>

namespace kvpool {
namespace {

PooledGroup pooled(Span span, std::int64_t page_bytes, std::int64_t tokens) {
  PooledGroup group;
  group.group.span = span;
  group.page.page_bytes = Bytes{page_bytes};
  group.page.tokens_per_block = Tokens{tokens};
  return group;
}

TEST_CASE("full attention costs its bytes a token from the first one on") {
  CHECK(sequence_cost(pooled({}, 81'920, 64), {.lookahead = Tokens{7}}) ==
        AffineCost{Bytes{0}, Bytes{1'280}, Tokens{0}});
}

TEST_CASE("padding that does not divide evenly is rounded up per token") {
  CHECK(sequence_cost(pooled({}, 1'008, 16), {}).bytes_per_token == Bytes{63});
  CHECK(sequence_cost(pooled({}, 1'024, 3), {}).bytes_per_token == Bytes{342});
}

TEST_CASE("a window costs a fixed number of pages once it is full") {
  const Span window{SpanKind::kSlidingWindow, Tokens{1024}};
  // 1,023 tokens before the newest touch 16 pages, wherever they start 17; the 17th at 1,025.
  CHECK(sequence_cost(pooled(window, 1'000, 64), {}) ==
        AffineCost{Bytes{17'000}, Bytes{0}, Tokens{1'025}});
}

TEST_CASE("a state costs its own slot and its snapshots") {
  PooledGroup state;
  state.group.is_state = true;
  state.page.page_bytes = Bytes{407'040};
  CHECK(sequence_cost(state, {.state_slots = 2}) ==
        AffineCost{Bytes{814'080}, Bytes{0}, Tokens{0}});
}

TEST_CASE("tokens that are dealt out cost a rank its part") {
  CHECK(sequence_cost(pooled({}, 64 * 78'324, 64), {.decode_context = 2}).bytes_per_token ==
        Bytes{39'162});
}

TEST_CASE("a drafter that stops costs nothing more from there on") {
  // 4,096 tokens in pages of 64: 64 pages, the last of which begins at 4,033 tokens.
  CHECK(sequence_cost(pooled({}, 131'072, 64), {.max_len = Tokens{4'096}}) ==
        AffineCost{Bytes{8'388'608}, Bytes{0}, Tokens{4'033}});
}

TEST_CASE("a common plan takes the fewest pages of every pool") {
  const auto plan = make_plan({.target = test::llama_8b(),
                               .parallelism = {.pipeline = 3},
                               .budget = {.kv_budget = Bytes{std::int64_t{8} << 30}}},
                              CapabilityRegistry::with_known_kernels());
  REQUIRE(plan.has_value());
  const auto common = common_plan(plan->ranks);
  REQUIRE(common.has_value());
  REQUIRE(common->size() == 3);
  for (const PoolPlan& rank : *common) {
    CHECK(rank.pools[0].slabs == plan->ranks[0].pools[0].slabs);
    CHECK(rank.pools[0].groups[0].planned_slabs == rank.pools[0].slabs);
    CHECK(rank.accounts[0].share ==
          rank.accounts[0].pages + rank.accounts[0].reserved + rank.accounts[0].loss);
    CHECK(rank.accounts[0].charged <= rank.accounts[0].share);
  }
}

TEST_CASE("ranks whose pools differ in page size have no common plan") {
  const auto with_page = [](std::int64_t page) {
    auto plan = make_plan({.target = test::llama_8b(),
                           .budget = {.kv_budget = Bytes{std::int64_t{8} << 30}},
                           .tokens_per_block = Tokens{page}},
                          CapabilityRegistry::with_known_kernels());
    REQUIRE(plan.has_value());
    return plan->ranks.front();
  };
  const std::vector ranks{with_page(32), with_page(64)};
  CHECK_FALSE(common_plan(ranks).has_value());
  CHECK_FALSE(common_plan(std::vector<PoolPlan>{}).has_value());
}

}  // namespace
}  // namespace kvpool
