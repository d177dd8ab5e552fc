// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The page-size mistakes that users of engines met: a draft page that silently loses a fused
// kernel, pages charged at one size and held at another, a draft pool that inherits the target's
// FP8.
#include <kvpool/plan/planner.hpp>
#include <kvpool/testing/agreement.hpp>

#include "speculative_engine/report.hpp"
#include "speculative_engine/scenario.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace example {
namespace {

using Catch::Matchers::ContainsSubstring;
using kvpool::Bytes;

/// The known rows, and a user's fused kernel that reads pages of 64 tokens only.
kvpool::CapabilityRegistry rows_with_fused_kernel() {
  auto rows = kvpool::CapabilityRegistry::with_known_kernels();
  kvpool::KernelCapability row;
  row.name = "users_fused_drafter";
  row.provider = "a user's engine";
  row.serves = {kvpool::PoolUser::kDflash};
  row.role = kvpool::KernelRole::kDraftBlock;
  row.page_sizes = kvpool::PageSizeRule{kvpool::PageSizeRule::OneOf{{64}}};
  row.limits.head_dims = {16};
  row.limits.max_query_tokens = 8;
  row.necessity = kvpool::Necessity::kPreferred;
  row.cost_of_loss = {.value = 257, .unit = "us_per_step", .conditions = "batch 1"};
  row.source = "measured by the user";
  REQUIRE(rows.add(row).has_value());
  return rows;
}

Outcome run(const Scenario& scenario) {
  const auto backend = make_cpu_backend();
  auto outcome = run_scenario(scenario, rows_with_fused_kernel(), *backend);
  if (!outcome) {
    FAIL(kvpool::to_string(outcome.error()));
  }
  return *std::move(outcome);
}

kvpool::Plan plan(const Scenario& scenario) {
  auto plan = plan_scenario(scenario, rows_with_fused_kernel());
  REQUIRE(plan.has_value());
  REQUIRE(plan->fits);
  return *std::move(plan);
}

Scenario one_request() {
  Scenario scenario;
  scenario.requests = 1;
  scenario.max_output = 20;
  return scenario;
}

TEST_CASE("a 64-token target keeps the user's fused drafter kernel", "[page_sizes]") {
  const kvpool::Plan kept = plan(one_request());
  CHECK(kept.resolution.draft_page == kvpool::Tokens{64});
  CHECK(kept.find_decision("preferred_kernel_lost") == nullptr);
  const kvpool::Decision* const choice = kept.find_decision("draft_page_size");
  REQUIRE(choice != nullptr);
  const auto verdict =
      std::ranges::find(choice->verdicts, "users_fused_drafter", &kvpool::Verdict::row);
  REQUIRE(verdict != choice->verdicts.end());
  CHECK(verdict->verdict == "accepts 64 (preferred)");
  CHECK(report(run(one_request())).find("users_fused_drafter") == std::string::npos);
}

TEST_CASE("with a draft page of 32 the plan and the engine's report say what is lost",
          "[page_sizes]") {
  Scenario scenario = one_request();
  scenario.draft_page = 32;
  const kvpool::Plan lost = plan(scenario);
  CHECK(lost.resolution.draft_page == kvpool::Tokens{32});
  const kvpool::Decision* const decision = lost.find_decision("preferred_kernel_lost");
  REQUIRE(decision != nullptr);
  CHECK(decision->pool == "draft");
  CHECK(decision->chosen == "32");
  CHECK(decision->instead_of == "64");
  CHECK(decision->reason ==
        "users_fused_drafter accepts {64} and would have run at the target's page of 64 tokens");
  CHECK(decision->cost.value == 257);
  CHECK(decision->cost.unit == "us_per_step");
  CHECK_THAT(report(run(scenario)),
             ContainsSubstring("  preferred_kernel_lost: 32 instead of 64; users_fused_drafter "
                               "accepts {64} and would have run at the target's page of 64 tokens; "
                               "costs 257 us_per_step (batch 1)\n"));
}

/// What an engine with an allocator of its own holds for the plan.
std::vector<kvpool::testing::Allocation> held(const kvpool::Plan& plan,
                                              const std::string& wrong_pool, std::int64_t times,
                                              std::int64_t by) {
  std::vector<kvpool::testing::Allocation> allocations;
  std::uintptr_t address = 1 << 20;
  for (const kvpool::PoolDescriptor& pool : plan.ranks.front().pools) {
    // Rows of pages, reserved ones included, without the rounding to granules.
    Bytes bytes = pool.slab_bytes * (pool.slabs.count() + pool.reserved_slabs.count());
    if (pool.name == wrong_pool) {
      bytes = Bytes{bytes.count() * times / by};
    }
    allocations.push_back({pool.name, address, bytes});
    address += static_cast<std::uintptr_t>(1) << 30U;
  }
  return allocations;
}

TEST_CASE("an engine that charges 32-token pages and holds 64-token ones is told so",
          "[page_sizes]") {
  Scenario scenario = one_request();
  scenario.draft_page = 32;
  const kvpool::Plan charged = plan(scenario);
  CHECK(kvpool::testing::check_allocations(charged, held(charged, "", 1, 1)).agrees());
  const auto twice = kvpool::testing::check_allocations(charged, held(charged, "draft", 2, 1));
  CHECK_FALSE(twice.agrees());
  REQUIRE(twice.pools.size() == 2);
  CHECK(twice.pools[0].reason.empty());
  CHECK_THAT(
      twice.pools[1].reason,
      ContainsSubstring("held is the bytes of 64-token pages where 32-token pages were charged"));
}

TEST_CASE("a draft pool that inherits the target's FP8 is told so", "[page_sizes]") {
  Scenario scenario = one_request();
  scenario.type = kvpool::kernels::ElementType::kBf16;
  kvpool::PlanRequest request = plan_request(scenario, Bytes{4 << 20});
  request.kv_dtype = kvpool::KvDtype::kFp8E4m3;
  const auto charged = kvpool::make_plan(request, rows_with_fused_kernel());
  REQUIRE(charged.has_value());
  REQUIRE(charged->fits);
  // The drafter keeps the format of its own config, and its charge.
  CHECK(charged->ranks.front().find("draft")->groups.front().page.planes.front().dtype ==
        kvpool::KvDtype::kBf16);
  const auto half = kvpool::testing::check_allocations(*charged, held(*charged, "draft", 1, 2));
  CHECK_FALSE(half.agrees());
  REQUIRE(half.pools.size() == 2);
  CHECK(half.pools[0].reason.empty());
  CHECK_THAT(half.pools[1].reason, ContainsSubstring("charged as bf16, held as fp8_e4m3 (half)"));
}

}  // namespace
}  // namespace example
