// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/testing/catch2_matchers.hpp>

#include "pools.hpp"
#include "support/catch.hpp"

#include <vector>

namespace kvpool::testing {
namespace {

TEST_CASE("a Catch2 matcher says whether a report agrees, and prints it") {
  const PoolDescriptor draft = dspark_pool();
  const std::vector<Allocation> right{{"draft", 256, draft.charged_bytes()}};
  const std::vector<Allocation> wrong{{"draft", 256, Bytes{81'920}}};
  CHECK_THAT(check_allocations(plan_of({draft}), right), Agrees());
  CHECK_THAT(check_allocations(plan_of({draft}), wrong), !Agrees());
  CHECK(Agrees{}.describe() == "charges equal allocations");
  const AgreementReport report = check_allocations(plan_of({draft}), wrong);
  CHECK(Catch::StringMaker<AgreementReport>::convert(report) == "\n" + report.text() + "\n");
}

}  // namespace
}  // namespace kvpool::testing
