// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Virtual memory over a driver on paper: the contract of page memories, and every call that fails.
#include "cuda/mapped_regions.hpp"

#include "fake_driver.hpp"
#include "support/catch.hpp"
#include "support/page_memory_suite.hpp"

#include <memory>
#include <set>
#include <string>

namespace kvpool {
namespace {

/// A page memory of mapped regions, which keeps its driver.
class FakeVmm {
 public:
  FakeVmm(std::shared_ptr<test::FakeDriver> driver, Bytes granularity) : driver_{driver} {
    test::FakeDriver::current() = driver.get();
    regions_ = std::make_shared<MappedRegions>(test::fake_api(), 0, granularity);
  }
  Result<Region> reserve(Bytes size) {
    if (size > Bytes{std::int64_t{1} << 46}) {
      return Error{.code = ErrorCode::kExhausted, .message = "no address space has this"};
    }
    return regions_->reserve(size);
  }
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
  std::shared_ptr<test::FakeDriver> driver_;
  std::shared_ptr<MappedRegions> regions_;
};

static_assert(PageMemory<FakeVmm>);

constexpr Bytes kGranule{2 << 20};

TEST_CASE("mapped regions keep the contract of page memory and the driver's rules", "[cuda]") {
  const auto granularity = GENERATE(Bytes{2 << 20}, Bytes{6 << 20}, Bytes{32 << 20});
  CAPTURE(granularity.count());
  const auto driver = std::make_shared<test::FakeDriver>();
  // So that nothing is aligned by chance.
  driver->next_address += std::uintptr_t{2} << 20U;
  test::page_memory_suite(
      {.make = [&] { return AnyPageMemory{FakeVmm{driver, granularity}}; }, .writable = false});
  CHECK(driver->faults.empty());
}

TEST_CASE("a mapped region holds as many granules as are committed, and leaves nothing", "[cuda]") {
  test::FakeDriver driver;
  test::FakeDriver::current() = &driver;
  {
    MappedRegions regions{test::fake_api(), 0, kGranule};
    const Region first = regions.reserve(kGranule * 8).value();
    REQUIRE(regions.commit(first, kGranule, kGranule * 5).has_value());
    CHECK(driver.mappings.size() == 5);
    CHECK(driver.handles.empty());  // the mapping alone keeps a granule
    REQUIRE(regions.decommit(first, kGranule * 2, kGranule * 2).has_value());
    CHECK(driver.mappings.size() == 3);
    const Region second = regions.reserve(kGranule).value();
    REQUIRE(regions.release(second).has_value());
    CHECK(driver.reservations.size() == 1);
  }
  CHECK(driver.granules() == 0);
  CHECK(driver.reservations.empty());
  CHECK(driver.faults.empty());
}

TEST_CASE("whatever call of the driver fails, nothing leaks and all can be tried again", "[cuda]") {
  const auto granularity = GENERATE(Bytes{2 << 20}, Bytes{6 << 20});
  std::set<std::string> failed;
  for (std::int64_t failing = 1;; ++failing) {
    test::FakeDriver driver;
    driver.failing_call = failing;
    test::FakeDriver::current() = &driver;
    {
      MappedRegions regions{test::fake_api(), 0, granularity};
      std::int64_t failures = 0;
      // Every step twice at most: only one call of all fails.
      const auto twice = [&](const auto& step) {
        const auto first = step();
        if (!first.has_value()) {
          ++failures;
          CHECK(first.error().code == ErrorCode::kExhausted);
          CHECK_THAT(first.error().message, Catch::Matchers::ContainsSubstring("a name"));
          REQUIRE(step().has_value());
        }
      };
      const auto held = [&](std::int64_t granules) {
        CHECK(regions.held() == granularity * granules);
        CHECK(driver.mappings.size() == static_cast<std::size_t>(granules));
      };
      Region region;
      twice([&] {
        const auto reserved = regions.reserve(granularity * 4);
        region = reserved.has_value() ? *reserved : Region{};
        return reserved;
      });
      twice([&] {
        auto committed = regions.commit(region, Bytes{0}, granularity * 3);
        if (!committed.has_value()) {
          held(0);
        }
        return committed;
      });
      held(3);
      twice([&] { return regions.decommit(region, granularity, granularity); });
      held(2);
      twice([&] { return regions.release(region); });
      held(0);
      CHECK(driver.reservations.empty());
      CHECK(failures <= 1);
    }
    CHECK(driver.faults.empty());
    CHECK(driver.mappings.empty());
    CHECK(driver.reservations.empty());
    CHECK((driver.handles.empty() || driver.failed == "release"));
    if (driver.failed.empty()) {
      break;
    }
    failed.insert(driver.failed);
  }
  CHECK(failed == std::set<std::string>{"reserve", "create", "map", "release", "set_access",
                                        "unmap", "address_free"});
}

TEST_CASE("a region whose addresses cannot be freed is still given back at the end", "[cuda]") {
  test::FakeDriver driver;
  test::FakeDriver::current() = &driver;
  {
    MappedRegions regions{test::fake_api(), 0, kGranule};
    const Region region = regions.reserve(kGranule).value();
    REQUIRE(regions.commit(region, Bytes{0}, kGranule).has_value());
    driver.failing_call = driver.calls + 2;  // unmap, then this
    CHECK(test::code_of(regions.release(region)) == ErrorCode::kExhausted);
    CHECK(driver.failed == "address_free");
    CHECK(regions.held() == Bytes{0});
  }
  CHECK(driver.reservations.empty());
  CHECK(driver.faults.empty());
}

TEST_CASE("what the driver has not is unsupported, what it has no room for exhausted", "[cuda]") {
  test::FakeDriver driver;
  test::FakeDriver::current() = &driver;
  const DriverApi api = test::fake_api();
  CHECK(api.error("x", CUDA_ERROR_OUT_OF_MEMORY).code == ErrorCode::kExhausted);
  CHECK(api.error("x", CUDA_ERROR_NOT_SUPPORTED).code == ErrorCode::kUnsupported);
  CHECK(api.error("x", CUDA_ERROR_ILLEGAL_ADDRESS).code == ErrorCode::kDevice);
  CHECK(device_granularity(api, 0).value() == kGranule);
  driver.failing_call = driver.calls + 1;
  driver.failure = CUDA_ERROR_NOT_SUPPORTED;
  CHECK(test::code_of(device_granularity(api, 0)) == ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace kvpool
