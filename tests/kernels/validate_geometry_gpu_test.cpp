// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/device_memory.hpp>
#include <kvpool/cuda/poison.hpp>
#include <kvpool/cuda/vmm_memory.hpp>
#include <kvpool/kernels/cuda.hpp>
#include <kvpool/kernels/validate_geometry_cuda.hpp>
#include <kvpool/memory/borrowed_memory.hpp>

#include "geometry_plans.hpp"
#include "gpu_support.hpp"

#include <algorithm>
#include <set>

namespace kvpool::kernels {
namespace {

using test::must;

TEST_CASE("pools on a GPU are where they were planned", "[gpu][geometry]") {
  auto queue = must(CudaQueue::create(0));
  for (const bool virtual_memory : {true, false}) {
    for (const test::GeometryPlan& sample : test::geometry_plans()) {
      INFO(sample.name << (virtual_memory ? ", mapped" : ", cudaMalloc"));
      const Plan plan = test::planned(sample);
      AnyPageMemory memory = virtual_memory ? AnyPageMemory{must(VmmMemory::create(0))}
                                            : AnyPageMemory{must(DeviceMemory::create(0))};
      const PoolSet pools = must(create_pools(*plan.smallest(), memory));
      must(poison_reserved_pages(pools, queue));
      const GeometryReport report = must(validate_geometry(pools, queue));
      INFO(report.text());
      CHECK(report.passed());
      CHECK_FALSE(report.checks.empty());
      for (std::size_t i = 0; i < pools.pools().size(); ++i) {
        for (const Region& range : pools.reserved_ranges(PoolId{static_cast<std::int32_t>(i)})) {
          const auto bytes =
              test::read_bytes(queue, range.address, static_cast<std::size_t>(range.size.count()));
          CHECK(std::ranges::count(bytes, kPoisonByte) == range.size.count());
        }
      }
    }
  }
}

TEST_CASE("a target and its drafter are where they were planned", "[gpu][geometry][sanitize]") {
  auto queue = must(CudaQueue::create(0));
  const Plan plan = test::planned(test::geometry_plans().front());
  const PoolSet pools = must(create_pools(*plan.smallest(), must(DeviceMemory::create(0))));
  const GeometryReport report = must(validate_geometry(pools, queue));
  INFO(report.text());
  CHECK(report.passed());
  CHECK(report.checks.size() == 8);
}

TEST_CASE("pools beyond 2^34 bytes are read and written behind every boundary", "[gpu][geometry]") {
  auto queue = must(CudaQueue::create(0));
  for (const PageOrder order : {PageOrder::kPageMajor, PageOrder::kLayerMajor}) {
    PlanRequest request{.target = test::llama_8b()};
    request.granularity = Bytes{2 << 20};
    request.budget.kv_budget = Bytes{std::int64_t{24} << 30};
    request.workload.max_model_len = Tokens{1024};
    request.layout.pages = order;
    const Plan plan = must(make_plan(request, CapabilityRegistry::with_known_kernels()));
    REQUIRE(plan.smallest() != nullptr);
    const PoolSet pools = must(create_pools(*plan.smallest(), must(VmmMemory::create(0))));
    CHECK(plan.smallest()->pools.front().bytes().count() > std::int64_t{1} << 34);
    const GeometryReport report = must(validate_geometry(pools, queue));
    INFO(report.text());
    CHECK(report.passed());
    CHECK(report.checks.size() == 32);
    // First, last, and three around each of 2^31 to 2^34 bytes.
    CHECK(report.checks.front().pages == (order == PageOrder::kPageMajor ? 14 : 2));
  }
}

TEST_CASE("kernels that look elsewhere are found on a GPU", "[gpu][geometry]") {
  auto queue = must(CudaQueue::create(0));
  const Plan plan = test::planned(test::geometry_plans().front());
  const PoolSet pools = must(create_pools(*plan.smallest(), must(VmmMemory::create(0))));
  const StreamHandle stream = queue.stream();
  GeometryKernels shifted{
      .append =
          [stream](AppendParams params) {
            params.k_cache.entry_stride_bytes -= 16;
            return append(params, stream);
          },
      .attention = [stream](const AttentionParams& params) { return attention(params, stream); },
      .queue = AnyDeviceQueue{queue},
      .scratch = AnyPageMemory{must(DeviceMemory::create(0))}};
  CHECK_FALSE(must(validate_geometry(pools, shifted)).passed());
}

TEST_CASE("a borrowed pool larger than the GPU is touched at first, last and boundary pages only",
          "[gpu][geometry]") {
  // 8 MiB a page of 64 tokens; other granules than those below are not mapped, and fault.
  PlanRequest request{.target = test::llama_8b()};
  request.granularity = Bytes{2 << 20};
  request.budget.kv_budget = Bytes{std::int64_t{400} << 30};
  request.workload.max_model_len = Tokens{1024};
  const Plan plan = must(make_plan(request, CapabilityRegistry::with_known_kernels()));
  REQUIRE(plan.smallest() != nullptr);
  const PoolDescriptor& planned = plan.smallest()->pools.front();
  const std::int64_t page = std::int64_t{8} << 20;
  REQUIRE(planned.slab_bytes == Bytes{page});
  CHECK(planned.bytes() > must(gpu_info(0)).total);
  const std::int64_t last = planned.bytes().count() / page - 1;
  std::set<std::int64_t> pages{1, last};
  for (const std::int64_t gibibytes : {2, 4, 8, 16}) {
    for (const std::int64_t beside : {-1, 0, 1}) {
      pages.insert(gibibytes * 128 + beside);
    }
  }
  AnyPageMemory sparse = must(VmmMemory::create(0));
  const Region range = must(sparse.reserve(align_up(planned.bytes(), sparse.granularity())));
  for (const std::int64_t each : pages) {
    must(sparse.commit(range, Bytes{each * page}, Bytes{page}));
  }
  {
    const PoolSet pools = must(create_pools(
        *plan.smallest(),
        AnyPageMemory{must(BorrowedMemory::create(range.address, range.size, Bytes{2 << 20}))}));
    CHECK(pools.base(PoolId{0}) == range.address);
    const GeometryReport report = must(validate_geometry(pools, must(CudaQueue::create(0))));
    INFO(report.text());
    CHECK(report.passed());
    CHECK(report.checks.front().pages == 14);
  }
  CHECK(sparse.held() == Bytes{14 * page});
  must(sparse.release(range));
}

}  // namespace
}  // namespace kvpool::kernels
