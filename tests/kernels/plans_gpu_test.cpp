// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Law 1 on a device: what a plan charges is what the GPU holds, and the pools are where it says.
#include <kvpool/cuda/device_memory.hpp>
#include <kvpool/cuda/vmm_memory.hpp>
#include <kvpool/memory/simulated_memory.hpp>
#include <kvpool/plan/planner.hpp>

#include "gpu_support.hpp"
#include "property/dice.hpp"
#include "support/models.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace kvpool {
namespace {

using test::must;

constexpr Bytes kGranule{2 << 20};
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// What the device may hold beyond the charge, by `cudaMemGetInfo`: nothing of mapped memory, at
/// most a granule a pool of `cudaMalloc`. docs/gpu-runs.md has what was measured.
std::int64_t stated_overhead(bool virtual_memory, std::size_t pools) {
  return virtual_memory ? 0 : static_cast<std::int64_t>(pools) * kGranule.count();
}

PlanRequest sample(test::Dice& dice) {
  const std::vector<ModelConfig> targets{test::llama_8b(), test::kimi_k3(),
                                         test::full_and_windows(2, 10, 8),
                                         test::full_and_windows(6, 0, 4)};
  PlanRequest request{.target = dice.of(targets)};
  if (!dice.one_in(3)) {
    request.drafter = DrafterRequest{.kind = DrafterKind::kDspark,
                                     .model = test::dspark_gqa(96, dice.one_in(2) ? 16 : 8)};
  }
  request.parallelism.tensor = dice.of(std::vector<std::int64_t>{1, 2, 4, 8});
  request.granularity = kGranule;
  request.budget.kv_budget = Bytes{dice.spread(25, 30)};
  request.workload.max_num_seqs = Sequences{1 + dice.below(8)};
  request.workload.max_model_len = Tokens{dice.spread(6, 12)};
  request.workload.max_batched_tokens = Tokens{dice.spread(6, 12)};
  request.tokens_per_block = Tokens{dice.of(std::vector<std::int64_t>{16, 32, 64, 128})};
  if (dice.one_in(3)) {
    request.kv_dtype = dice.of(std::vector{KvDtype::kFp8E4m3, KvDtype::kFp16});
  }
  request.layout.rows = dice.one_in(2) ? RowOrder::kHnd : RowOrder::kNhd;
  request.layout.pages = dice.one_in(4) ? PageOrder::kLayerMajor : PageOrder::kPageMajor;
  request.reserved_pages = dice.below(3);
  return request;
}

/// Sixteen bytes that no other place has.
std::array<std::uint64_t, 2> mark_of(std::uintptr_t address) {
  return {0x9E3779B97F4A7C15U * (address + 1), ~static_cast<std::uint64_t>(address)};
}

/// Places that a plan promises: the last 16 bytes of every view, of each pool, and its first ones.
std::vector<std::uintptr_t> places_of(const PoolSet& pools) {
  std::vector<std::uintptr_t> places;
  for (std::size_t i = 0; i < pools.pools().size(); ++i) {
    const PoolId pool{static_cast<std::int32_t>(i)};
    const PoolDescriptor& descriptor = pools.descriptor(pool);
    places.push_back(pools.base(pool));
    places.push_back(pools.base(pool) +
                     static_cast<std::uintptr_t>(descriptor.bytes().count() - 16));
    for (std::size_t group = 0; group < descriptor.groups.size(); ++group) {
      for (const PlacedView& placed : pools.views(pool, group)) {
        std::int64_t last = placed.view.strides.back();
        for (std::size_t d = 0; d < placed.view.shape.size(); ++d) {
          last += (placed.view.shape[d] - 1) * placed.view.strides[d];
        }
        // Down to a multiple of 16, so that places are the same or apart.
        places.push_back((placed.address + static_cast<std::uintptr_t>(last) - 1) / 16 * 16);
      }
    }
  }
  std::ranges::sort(places);
  places.erase(std::ranges::unique(places).begin(), places.end());
  return places;
}

/// Writes a mark to every place, then reads all of them. @return places that had another mark
std::int64_t wrong_marks(const PoolSet& pools, CudaQueue& queue) {
  const std::vector<std::uintptr_t> places = places_of(pools);
  std::vector<std::array<std::uint64_t, 2>> marks;
  std::ranges::transform(places, std::back_inserter(marks), mark_of);
  for (std::size_t i = 0; i < places.size(); ++i) {
    must(queue.copy_async(places[i], address_of(&marks[i]), Bytes{16}));
  }
  test::drain(queue);
  std::vector<std::array<std::uint64_t, 2>> found(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    must(queue.copy_async(address_of(&found[i]), places[i], Bytes{16}));
  }
  test::drain(queue);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    wrong += found[i] == marks[i] ? 0 : 1;
  }
  return wrong;
}

/// Views on the device are those of the planner's own allocation, moved.
bool views_as_planned(const PoolSet& pools) {
  const auto planned = must(PoolSet::create(pools.pools(), SimulatedMemory{}));
  for (std::size_t i = 0; i < pools.pools().size(); ++i) {
    const PoolId pool{static_cast<std::int32_t>(i)};
    for (std::size_t group = 0; group < pools.descriptor(pool).groups.size(); ++group) {
      const auto here = pools.views(pool, group);
      const auto there = planned.views(pool, group);
      const bool same = std::ranges::equal(here, there, [&](const auto& a, const auto& b) {
        return a.view == b.view && a.address - pools.base(pool) == b.address - planned.base(pool);
      });
      if (!same) {
        return false;
      }
    }
  }
  return true;
}

struct Outcome {
  std::int64_t charged = 0;
  std::int64_t held = 0;
  std::int64_t taken = 0;
  double allocate_ms = 0;
  double release_ms = 0;
};

/// Allocates a rank, checks it, and gives it back.
Outcome allocate(const PoolPlan& rank, AnyPageMemory memory, CudaQueue& queue) {
  using Clock = std::chrono::steady_clock;
  const auto ms = [](Clock::time_point from) {
    return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
  };
  Outcome outcome;
  const std::int64_t before = test::free_bytes();
  auto start = Clock::now();
  PoolSet pools = must(create_pools(rank, memory));
  outcome.allocate_ms = ms(start);
  outcome.taken = before - test::free_bytes();
  outcome.held = memory.held().count();
  for (std::size_t i = 0; i < rank.pools.size(); ++i) {
    CHECK(pools.ledger()[i].held == pools.ledger()[i].charged);
    CHECK(pools.ledger()[i].charged == rank.accounts[i].charged);
    outcome.charged += rank.accounts[i].charged.count();
  }
  CHECK(outcome.held == outcome.charged);
  CHECK(wrong_marks(pools, queue) == 0);
  CHECK(views_as_planned(pools));
  start = Clock::now();
  pools.reset();
  outcome.release_ms = ms(start);
  CHECK(memory.held() == Bytes{0});
  return outcome;
}

void check_overhead(const Outcome& outcome, bool virtual_memory, const PoolPlan& rank) {
  const std::int64_t beyond = outcome.taken - outcome.charged;
  CAPTURE(virtual_memory, outcome.charged, outcome.taken, beyond);
  CHECK(beyond >= 0);
  CHECK(beyond <= stated_overhead(virtual_memory, rank.pools.size()));
}

TEST_CASE("200 sampled plans hold what they charge", "[gpu][plan]") {
  const auto registry = CapabilityRegistry::with_known_kernels();
  auto queue = must(CudaQueue::create(0));
  test::Dice dice{20'260'101};
  test::Measurements table{"plans", "plan,memory,pools,charged,held,taken,allocate_ms,release_ms"};
  int plans = 0;
  int layer_major = 0;
  int with_draft = 0;
  for (int tries = 0; plans < 200; ++tries) {
    REQUIRE(tries < 4000);
    const PlanRequest request = sample(dice);
    const auto plan = make_plan(request, registry);
    if (!plan.has_value() || plan->smallest() == nullptr || plan->smallest()->pools.empty()) {
      continue;
    }
    const PoolPlan& rank = *plan->smallest();
    if (std::ranges::any_of(rank.pools, [](const auto& p) { return p.bytes() == Bytes{0}; })) {
      continue;
    }
    CAPTURE(plans, request.target.name, request.budget.kv_budget->count());
    layer_major += request.layout.pages == PageOrder::kLayerMajor ? 1 : 0;
    with_draft += rank.find("draft") != nullptr ? 1 : 0;
    const Outcome mapped = allocate(rank, must(VmmMemory::create(0, kGranule)), queue);
    const Outcome allocated = allocate(rank, must(DeviceMemory::create(0, kGranule)), queue);
    CHECK(mapped.charged <= kGiB);
    for (const auto& [name, outcome] : {std::pair{"vmm", mapped}, std::pair{"malloc", allocated}}) {
      check_overhead(outcome, name == std::string_view{"vmm"}, rank);
      table.row(plans, name, rank.pools.size(), outcome.charged, outcome.held, outcome.taken,
                outcome.allocate_ms, outcome.release_ms);
    }
    ++plans;
  }
  CHECK(layer_major >= 10);
  CHECK(with_draft >= 50);
}

TEST_CASE("a plan of more than 100 GiB holds what it charges", "[gpu][plan]") {
  const auto registry = CapabilityRegistry::with_known_kernels();
  auto queue = must(CudaQueue::create(0));
  const std::int64_t budget = 110 * kGiB;
  if (test::free_bytes() < budget + 4 * kGiB) {
    test::skip("the GPU has too little free memory for 110 GiB");
    return;
  }
  PlanRequest request{.target = test::llama_8b()};
  request.drafter = DrafterRequest{.kind = DrafterKind::kDspark, .model = test::dspark_gqa(96, 16)};
  request.granularity = kGranule;
  request.budget.kv_budget = Bytes{budget};
  request.workload.max_model_len = Tokens{131'072};
  const Plan plan = must(make_plan(request, registry));
  REQUIRE(plan.smallest() != nullptr);
  test::Measurements table{"large_plan", "memory,pools,charged,held,taken,allocate_ms,release_ms"};
  for (const bool virtual_memory : {true, false}) {
    AnyPageMemory memory = virtual_memory ? AnyPageMemory{must(VmmMemory::create(0, kGranule))}
                                          : AnyPageMemory{must(DeviceMemory::create(0, kGranule))};
    const Outcome outcome = allocate(*plan.smallest(), memory, queue);
    CHECK(outcome.charged >= 100 * kGiB);
    check_overhead(outcome, virtual_memory, *plan.smallest());
    table.row(virtual_memory ? "vmm" : "malloc", plan.smallest()->pools.size(), outcome.charged,
              outcome.held, outcome.taken, outcome.allocate_ms, outcome.release_ms);
  }
}

}  // namespace
}  // namespace kvpool
