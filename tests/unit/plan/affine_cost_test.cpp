// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/affine_cost.hpp>

#include "support/catch.hpp"

namespace kvpool {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

AffineCost cost(std::int64_t fixed, std::int64_t slope) {
  return {.fixed_bytes = Bytes{fixed}, .bytes_per_token = Bytes{slope}};
}

TEST_CASE("what is left after fixed costs goes by slope, and shares sum exactly") {
  // 10 GiB, 5 GiB fixed for the draft, slopes 80 and 20: the draft gets 5 + 1.
  const BudgetSplit split = split_budget(Bytes{10 * kGiB}, cost(0, 80), cost(5 * kGiB, 20));
  REQUIRE(split.shares.has_value());
  CHECK(split.shares->draft == Bytes{6 * kGiB});
  CHECK(split.shares->target == Bytes{4 * kGiB});
}

TEST_CASE("the draft's share is rounded down, the target gets the byte") {
  const BudgetSplit split = split_budget(Bytes{10}, cost(0, 2), cost(0, 1));
  REQUIRE(split.shares.has_value());
  CHECK(split.shares->draft == Bytes{3});
  CHECK(split.shares->target == Bytes{7});
}

TEST_CASE("a draft without a slope gets exactly its fixed cost") {
  CHECK(split_budget(Bytes{1000}, cost(300, 0), cost(200, 0)).shares ==
        BudgetShares{Bytes{800}, Bytes{200}});
  CHECK(split_budget(Bytes{500}, cost(300, 0), cost(200, 0)).shares ==
        BudgetShares{Bytes{300}, Bytes{200}});
}

TEST_CASE("a target without a slope gets exactly its fixed cost") {
  CHECK(split_budget(Bytes{1000}, cost(300, 0), cost(0, 5)).shares ==
        BudgetShares{Bytes{300}, Bytes{700}});
}

TEST_CASE("fixed costs above the budget are infeasible and say how much is missing") {
  const BudgetSplit split = split_budget(Bytes{1 * kGiB}, cost(kGiB, 80), cost(kGiB, 20));
  CHECK_FALSE(split.shares.has_value());
  REQUIRE(split.refusal.has_value());
  CHECK(split.refusal->missing_bytes == Bytes{kGiB + 1});
}

TEST_CASE("fixed costs equal to the budget leave nothing for a slope") {
  CHECK_FALSE(split_budget(Bytes{500}, cost(300, 1), cost(200, 0)).shares.has_value());
}

TEST_CASE("products of a split have 128 bits") {
  const std::int64_t large = std::int64_t{1} << 60;
  const BudgetSplit split = split_budget(Bytes{large}, cost(0, large), cost(0, large));
  REQUIRE(split.shares.has_value());
  CHECK(split.shares->draft == Bytes{large / 2});
}

TEST_CASE("host and disk tiers are split by slope alone") {
  CHECK(split_offload_tier(Bytes{20 * kGiB}, cost(50 * kGiB, 80), cost(100 * kGiB, 20)) ==
        BudgetShares{Bytes{16 * kGiB}, Bytes{4 * kGiB}});
}

}  // namespace
}  // namespace kvpool
