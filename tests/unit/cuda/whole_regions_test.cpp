// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Regions that are one allocation each, over a runtime on paper.
#include "cuda/whole_regions.hpp"

#include "support/catch.hpp"
#include "support/page_memory_suite.hpp"

#include <map>
#include <memory>

namespace kvpool {
namespace {

/// What the runtime has given out.
struct FakeRuntime {
  std::map<std::uintptr_t, std::size_t> allocations{};
  /// What the next allocation starts at is no more than a multiple of this.
  std::uintptr_t alignment = 512;
  std::uintptr_t next = 0x7F00'0000'0200U;
  /// Calls from now on until one fails; 0: none.
  int allocations_until_failure = 0;
  bool free_fails = false;
  int bad_frees = 0;
};

FakeRuntime* runtime = nullptr;

cudaError_t allocate(void** address, std::size_t size) {
  if (runtime->allocations_until_failure > 0 && --runtime->allocations_until_failure == 0) {
    return cudaErrorMemoryAllocation;
  }
  if (size > std::size_t{1} << 46U) {
    return cudaErrorMemoryAllocation;
  }
  *address = reinterpret_cast<void*>(runtime->next);  // NOLINT: an address on paper
  runtime->allocations.emplace(runtime->next, size);
  runtime->next =
      (runtime->next + size) / runtime->alignment * runtime->alignment + runtime->alignment;
  return cudaSuccess;
}

cudaError_t give_back(void* address) {
  if (runtime->free_fails) {
    return cudaErrorIllegalAddress;
  }
  const auto erased = runtime->allocations.erase(reinterpret_cast<std::uintptr_t>(address));
  runtime->bad_frees += erased == 1 ? 0 : 1;
  return cudaSuccess;
}

constexpr WholeRegionCalls kCalls{.name = "cudaMalloc", .allocate = &allocate, .free = &give_back};

/// A page memory of whole regions.
class FakeMemory {
 public:
  explicit FakeMemory(Bytes granularity)
      : regions_{std::make_shared<WholeRegions>(kCalls, 0, granularity)} {}
  Result<Region> reserve(Bytes size) { return regions_->reserve(size); }
  Result<void> commit(const Region& region, Bytes offset, Bytes size) {
    return regions_->commit(region, offset, size);
  }
  Result<void> decommit(const Region& region, Bytes offset, Bytes size) {
    return regions_->decommit(region, offset, size);
  }
  Result<void> release(const Region& region) { return regions_->release(region); }
  [[nodiscard]] Bytes granularity() const { return regions_->granularity(); }
  [[nodiscard]] Bytes held() const { return regions_->held(); }

 private:
  std::shared_ptr<WholeRegions> regions_;
};

static_assert(PageMemory<FakeMemory>);

constexpr Bytes kGranule{2 << 20};

/// Whether a region lies in one allocation.
bool is_allocated(const Region& region) {
  auto behind = runtime->allocations.upper_bound(region.address);
  return behind != runtime->allocations.begin() &&
         region.address + static_cast<std::uintptr_t>(region.size.count()) <=
             std::prev(behind)->first + std::prev(behind)->second;
}

TEST_CASE("whole regions keep the contract of page memory", "[cuda]") {
  const auto granularity = GENERATE(Bytes{256}, Bytes{2 << 20}, Bytes{6 << 20});
  CAPTURE(granularity.count());
  FakeRuntime fake;
  runtime = &fake;
  test::page_memory_suite(
      {.make = [&] { return AnyPageMemory{FakeMemory{granularity}}; }, .writable = false});
}

TEST_CASE("a whole region is aligned to granules inside its allocation", "[cuda]") {
  FakeRuntime fake;
  runtime = &fake;
  {
    WholeRegions regions{kCalls, 0, kGranule};
    const Region first = regions.reserve(kGranule * 3).value();
    CHECK(first.address % 2'097'152 == 0);
    CHECK(is_allocated(first));
    CHECK(fake.allocations.size() == 1);
    // One that is aligned already is not allocated twice.
    fake.next = 0x7F10'0000'0000U;
    const Region second = regions.reserve(kGranule).value();
    CHECK(second.address == 0x7F10'0000'0000U);
    CHECK(fake.allocations.at(second.address) == 2'097'152);
    REQUIRE(regions.release(first).has_value());
    CHECK(fake.allocations.size() == 1);
  }
  CHECK(fake.allocations.empty());
  CHECK(fake.bad_frees == 0);
}

TEST_CASE("an allocation that fails, the first or the one with room to move, leaves nothing",
          "[cuda]") {
  for (const int failing : {1, 2}) {
    FakeRuntime fake{.allocations_until_failure = failing};
    runtime = &fake;
    WholeRegions regions{kCalls, 0, kGranule};
    const auto region = regions.reserve(kGranule);
    REQUIRE(test::code_of(region) == ErrorCode::kExhausted);
    CHECK_THAT(region.error().message, Catch::Matchers::ContainsSubstring("cudaMalloc of"));
    CHECK(fake.allocations.empty());
    CHECK(regions.reserve(kGranule).has_value());
  }
}

TEST_CASE("a region that cannot be given back stays, and can be given back later", "[cuda]") {
  FakeRuntime fake;
  runtime = &fake;
  WholeRegions regions{kCalls, 0, kGranule};
  const Region region = regions.reserve(kGranule).value();
  REQUIRE(regions.commit(region, Bytes{0}, kGranule).has_value());
  fake.free_fails = true;
  CHECK(test::code_of(regions.release(region)) == ErrorCode::kDevice);
  CHECK(regions.held() == kGranule);
  fake.free_fails = false;
  CHECK(regions.release(region).has_value());
  CHECK(regions.held() == Bytes{0});
  CHECK(fake.allocations.empty());
  CHECK(fake.bad_frees == 0);
}

}  // namespace
}  // namespace kvpool
