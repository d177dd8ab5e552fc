// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/testing/gtest_matchers.hpp>

#include "pools.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

using kvpool::testing::agrees;
using kvpool::testing::Allocation;
using kvpool::testing::check_allocations;

TEST(GtestMatchers, SayWhetherAReportAgreesAndPrintIt) {
  const kvpool::PoolDescriptor draft = kvpool::testing::dspark_pool();
  const kvpool::PoolPlan plan = kvpool::testing::plan_of({draft});
  const std::vector<Allocation> right{{"draft", 256, draft.charged_bytes()}};
  const std::vector<Allocation> wrong{{"draft", 256, kvpool::Bytes{81'920}}};
  EXPECT_TRUE(agrees(check_allocations(plan, right)));

  const auto report = check_allocations(plan, wrong);
  const ::testing::AssertionResult result = agrees(report);
  EXPECT_FALSE(result);
  EXPECT_EQ(result.message(), report.text());
  EXPECT_EQ(::testing::PrintToString(report), report.text());
}

}  // namespace
