// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The unit test of an engine that has its own allocator and plans with kvpool: what the plan
// charges is what the engine allocates. A correct engine passes. One that charges 32-token pages
// and allocates 64-token pages fails, with a reason. kvpool::testing needs no test framework.
//
//   example_assert_cost_equals_allocation MODEL.json
#include <kvpool/io/model_config_io.hpp>
#include <kvpool/memory/simulated_memory.hpp>
#include <kvpool/plan/planner.hpp>
#include <kvpool/pool/pool_set.hpp>
#include <kvpool/testing/agreement.hpp>

#include "claims.hpp"

#include <iostream>
#include <vector>

namespace {

using kvpool::Allocation;
using kvpool::Bytes;
using kvpool::Tokens;

/// The engine under test: it takes the number of pages from the plan and computes their size
/// itself, from the page that its attention back-end uses.
class Engine {
 public:
  Engine(Tokens page, std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim)
      : page_bytes_{page.count() * layers * 2 * kv_heads * head_dim * kBytesOfBf16} {}

  /// What it allocates for every pool of the plan. The addresses are made up.
  [[nodiscard]] std::vector<Allocation> allocate(const kvpool::PoolPlan& plan) const {
    std::vector<Allocation> allocations;
    std::uintptr_t address = 0x7f0000000000;
    for (const kvpool::PoolDescriptor& pool : plan.pools) {
      const std::int64_t pages = (pool.slabs + pool.reserved_slabs).count();
      allocations.push_back({pool.name, address, Bytes{pages * page_bytes_}});
      address += std::uintptr_t{1} << 40;
    }
    return allocations;
  }

 private:
  static constexpr std::int64_t kBytesOfBf16 = 2;
  std::int64_t page_bytes_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto model = kvpool::io::read_model_config(argc > 1 ? argv[1] : "");
  if (!model) {
    return example::fail(model.error());
  }
  kvpool::PlanRequest request{.target = *model};
  request.parallelism.tensor = 4;
  request.tokens_per_block = Tokens{32};
  request.budget.kv_budget = Bytes{40LL << 30};
  const auto plan = kvpool::make_plan(request, kvpool::CapabilityRegistry::with_known_kernels());
  if (!plan) {
    return example::fail(plan.error());
  }
  if (!plan->fits) {
    return example::fail(plan->refusals.front());
  }
  const kvpool::PoolPlan& rank = plan->ranks[plan->smallest_rank];
  const kvpool::AttentionCache layer =
      std::get<kvpool::AttentionCache>(model->layers.front().caches.front());
  const auto layers = static_cast<std::int64_t>(model->layers.size());
  const std::int64_t heads = kvpool::heads_per_rank(layer.kv_heads, request.parallelism).count();
  example::Claims claims;

  // A correct engine. In a test: CHECK(report.agrees()), or the matchers for Catch2 and GoogleTest.
  const Engine correct{Tokens{32}, layers, heads, layer.key_dim};
  auto report = kvpool::testing::check_allocations(rank, correct.allocate(rank));
  std::cout << report.text() << '\n';
  claims.claim(report.agrees(), "an engine that allocates what is charged passes");

  // The back-end has pages of 64 tokens and nobody told the planner.
  const Engine wrong{Tokens{64}, layers, heads, layer.key_dim};
  report = kvpool::testing::check_allocations(rank, wrong.allocate(rank));
  std::cout << report.text() << '\n';
  claims.claim(!report.agrees(), "an engine with other pages than were charged fails");
  const std::string& reason = report.pools.front().reason;
  claims.claim(reason.find("64-token pages where 32-token pages were charged") != std::string::npos,
               "and the reason names both page sizes");

  // The same, before anything is allocated.
  report = kvpool::testing::check_page_size(rank, "target", Tokens{64});
  std::cout << report.text() << '\n';
  claims.claim(!report.agrees(), "the page size alone can be asserted, too");

  // An engine that lets kvpool allocate asserts the same of its pools.
  const auto pools = kvpool::PoolSet::create(rank.pools, kvpool::SimulatedMemory{});
  if (!pools) {
    return example::fail(pools.error());
  }
  report = kvpool::testing::check_cost_equals_allocation(rank, *pools);
  std::cout << report.text() << '\n';
  claims.claim(report.agrees(), "kvpool's own pools hold what is charged");
  return claims.exit_code();
}
