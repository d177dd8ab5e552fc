// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/simulated_memory.hpp>

#include "support/catch.hpp"
#include "support/page_memory_suite.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kvpool {
namespace {

using namespace kvpool::literals;

SimulatedMemory make(const SimulatedMemoryOptions& options) {
  const auto memory = SimulatedMemory::create(options);
  REQUIRE(memory.has_value());
  return *memory;
}

TEST_CASE("simulated memory keeps the contract of page memory", "[memory][simulated]") {
  const auto granularity = GENERATE(1_B, 16_B, 384_B, 64_KiB, 2_MiB, 1024_GiB);
  CAPTURE(granularity.count());
  test::page_memory_suite(
      {.make = [&] { return AnyPageMemory{make({.granularity = granularity})}; }});
}

TEST_CASE("simulated memory has granules of 2 MiB and no limit by default", "[memory][simulated]") {
  SimulatedMemory memory;
  CHECK(memory.granularity() == Bytes{2'097'152});
  const auto region = memory.reserve(1024_GiB * 1024);
  REQUIRE(region.has_value());
  CHECK(memory.commit(*region, 0_B, region->size).has_value());
  CHECK(memory.held() == Bytes{1'125'899'906'842'624});
}

TEST_CASE("simulated addresses are the same in each run and never reused", "[memory][simulated]") {
  SimulatedMemory memory;
  const auto first = memory.reserve(2_MiB);
  REQUIRE(first.has_value());
  CHECK(first->address == 0x1000'0000'0000);
  REQUIRE(memory.release(*first).has_value());
  const auto second = memory.reserve(2_MiB);
  REQUIRE(second.has_value());
  CHECK(second->address == 0x1000'0040'0000);
}

TEST_CASE("a simulated capacity limits what is committed, not what is reserved",
          "[memory][simulated]") {
  SimulatedMemory memory = make({.granularity = 2_MiB, .capacity = 5_MiB});
  const auto region = memory.reserve(20_MiB);
  REQUIRE(region.has_value());
  CHECK(memory.commit(*region, 0_B, 4_MiB).has_value());
  const auto beyond = memory.commit(*region, 4_MiB, 2_MiB);
  REQUIRE_FALSE(beyond.has_value());
  CHECK(beyond.error().code == ErrorCode::kExhausted);
  CHECK(beyond.error().message ==
        "committing 2,097,152 B (2.00 MiB) on top of 4,194,304 B (4.00 MiB) exceeds the simulated "
        "capacity of 5,242,880 B (5.00 MiB): 1,048,576 B (1.00 MiB) are missing");
  CHECK(memory.held() == 4_MiB);
  REQUIRE(memory.decommit(*region, 2_MiB, 2_MiB).has_value());
  CHECK(memory.commit(*region, 4_MiB, 2_MiB).has_value());
}

TEST_CASE("simulated memory refuses impossible options", "[memory][simulated]") {
  for (const Bytes granularity : {0_B, Bytes{-1}, 1024_GiB + 1_B}) {
    CHECK(test::code_of(SimulatedMemory::create({.granularity = granularity})) ==
          ErrorCode::kInvalidArgument);
  }
  CHECK(test::code_of(SimulatedMemory::create({.capacity = Bytes{-1}})) ==
        ErrorCode::kInvalidArgument);
}

TEST_CASE("any sequence of commits and decommits agrees with a list of granules",
          "[memory][simulated][property]") {
  CHECK(rc::check([] {
    constexpr std::int64_t kGranules = 24;
    SimulatedMemory memory = *SimulatedMemory::create({.granularity = 1_KiB});
    const Region region = *memory.reserve(1_KiB * kGranules);
    std::vector<bool> model(kGranules, false);
    const auto steps =
        *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::arbitrary<std::uint32_t>());
    std::int64_t held = 0;
    for (const std::uint32_t step : steps) {
      const bool commit = step % 2 == 0;
      const std::int64_t first = step / 2 % kGranules;
      const std::int64_t count = 1 + step / 64 % 6;
      const auto begin = model.begin() + first;
      const bool allowed =
          first + count <= kGranules && std::find(begin, begin + count, commit) == begin + count;
      const auto result = commit ? memory.commit(region, 1_KiB * first, 1_KiB * count)
                                 : memory.decommit(region, 1_KiB * first, 1_KiB * count);
      RC_ASSERT(result.has_value() == allowed);
      if (allowed) {
        std::fill_n(begin, count, commit);
        held += commit ? count : -count;
      }
      RC_ASSERT(memory.held() == 1_KiB * held);
    }
    RC_ASSERT(memory.release(region).has_value());
    RC_ASSERT(memory.held() == 0_B);
  }));
}

}  // namespace
}  // namespace kvpool
