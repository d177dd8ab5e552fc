// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Pools on a machine without a GPU: 2 x 80 GB of them as mere addresses, with the views that an
// engine's kernels would get, and a small one on host memory that is really written.
//
//   example_pools_without_a_gpu MODEL.json
#include <kvpool/core/size_text.hpp>
#include <kvpool/io/model_config_io.hpp>
#include <kvpool/memory/host_memory.hpp>
#include <kvpool/memory/simulated_memory.hpp>
#include <kvpool/plan/planner.hpp>
#include <kvpool/pool/pool_set.hpp>

#include "claims.hpp"

#include <cstddef>
#include <iostream>
#include <span>
#include <utility>
#include <vector>

namespace {

using kvpool::Bytes;
using kvpool::PlacedView;
using kvpool::PoolSet;
using kvpool::Result;

void print(const PlacedView& placed) {
  std::cout << "layer " << placed.view.layer.value() << ' ' << to_string(placed.view.kind) << ' '
            << to_string(placed.view.dtype) << " at 0x" << std::hex << placed.address << std::dec;
  for (const auto& [name, numbers] : {std::pair{", shape", &placed.view.shape},
                                      std::pair{", strides in bytes", &placed.view.strides}}) {
    std::cout << name;
    for (const std::int64_t number : *numbers) {
      std::cout << ' ' << number;
    }
  }
  std::cout << '\n';
}

/// Address of an element of a view.
std::uintptr_t address_of(const PlacedView& placed, std::span<const std::int64_t> index) {
  std::uintptr_t address = placed.address;
  for (std::size_t i = 0; i < index.size(); ++i) {
    address += static_cast<std::uintptr_t>(index[i] * placed.view.strides[i]);
  }
  return address;
}

/// Two pipeline stages of 80 GB each. Every rank allocates the same number of pages.
int simulate(kvpool::PlanRequest request, example::Claims& claims) {
  request.parallelism.pipeline = 2;
  request.budget.kv_budget = Bytes{80'000'000'000};
  const auto plan = kvpool::make_plan(request, kvpool::CapabilityRegistry::with_known_kernels());
  if (!plan) {
    return example::fail(plan.error());
  }
  if (!plan->fits) {
    return example::fail(plan->refusals.front());
  }
  const auto ranks = kvpool::common_plan(plan->ranks);
  if (!ranks) {
    return example::fail(ranks.error());
  }
  for (const kvpool::PoolPlan& rank : *ranks) {
    Result<PoolSet> pools = PoolSet::create(rank.pools, kvpool::SimulatedMemory{});
    if (!pools) {
      return example::fail(pools.error());
    }
    for (const kvpool::PoolCharge& line : pools->ledger()) {
      std::cout << "stage " << rank.stage << ", " << line.pool << ": holds "
                << kvpool::size_text(line.held) << '\n';
      claims.claim(line.held == line.charged, "held is what was charged, to the byte");
    }
    // The first layer, as a kernel gets it: [page, K or V, head, slot, element].
    const std::vector<PlacedView> views = pools->views(kvpool::PoolId{0}, 0);
    print(views.front());
    claims.claim(views.front().view.shape.front() ==
                     (rank.pools[0].slabs + rank.pools[0].reserved_slabs).count(),
                 "rows count the reserved page, so a page id indexes the view");
  }
  claims.claim(ranks->front().pools[0].slabs == ranks->back().pools[0].slabs,
               "both stages have equally many pages");
  return 0;
}

/// 256 MiB of this process's memory, for the planner a budget like any other.
int write_the_last_page(kvpool::PlanRequest request, example::Claims& claims) {
  request.budget.kv_budget = Bytes{256 << 20};
  request.workload.max_model_len = kvpool::Tokens{1'024};
  const auto plan = kvpool::make_plan(request, kvpool::CapabilityRegistry::with_known_kernels());
  if (!plan) {
    return example::fail(plan.error());
  }
  if (!plan->fits) {
    return example::fail(plan->refusals.front());
  }
  // Poison: page 0 is for padded rows of a batch; whoever reads it by mistake gets NaN.
  Result<PoolSet> pools = PoolSet::create(plan->ranks[plan->smallest_rank].pools,
                                          kvpool::HostMemory{}, {.poison_reserved_pages = true});
  if (!pools) {
    return example::fail(pools.error());
  }
  const kvpool::PoolId pool = *pools->find("target");
  // The last element of the last layer's view is the last one of the last page.
  const PlacedView last_layer = pools->views(pool, 0).back();
  std::vector<std::int64_t> last = last_layer.view.shape;
  for (std::int64_t& index : last) {
    index -= 1;
  }
  const std::uintptr_t element = address_of(last_layer, last);
  auto* const bf16 = reinterpret_cast<std::byte*>(element);
  bf16[1] = std::byte{0x3F};
  claims.claim(element + 2 == pools->base(pool) + static_cast<std::uintptr_t>(
                                                      pools->descriptor(pool).bytes().count()),
               "the last element of the last view ends with the pool, and can be written");
  claims.claim(*reinterpret_cast<const std::byte*>(pools->base(pool)) == std::byte{0xFF},
               "the reserved page is poisoned");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto model = kvpool::io::read_model_config(argc > 1 ? argv[1] : "config.json");
  if (!model) {
    return example::fail(model.error());
  }
  example::Claims claims;
  const kvpool::PlanRequest request{.target = *model};
  const int failed = simulate(request, claims) + write_the_last_page(request, claims);
  return failed == 0 ? claims.exit_code() : 1;
}
