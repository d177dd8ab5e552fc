// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block/extent_allocator.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace kvpool::block {
namespace {

TEST_CASE("a range is as long as asked, and its neighbours stay free", "[block][extents]") {
  ExtentAllocator extents{100};
  const Extent a = extents.allocate(37);
  CHECK(a.units == 37);
  CHECK(extents.free_units() == 63);
  CHECK_FALSE(extents.is_free(a.start));
  CHECK_FALSE(extents.is_free(a.start + 36));
  CHECK(extents.is_free(a.start + 37));
  extents.free(a);
  // 64 + 32 + 4 units: the longest aligned range.
  CHECK(extents.allocate(64).units == 64);
}

TEST_CASE("where no range is long enough, the longest is given", "[block][extents]") {
  ExtentAllocator extents{100};
  CHECK(extents.allocate(100).units == 64);
  CHECK(extents.allocate(100).units == 32);
  CHECK(extents.allocate(100).units == 4);
  CHECK(extents.allocate(1).units == 0);
}

TEST_CASE("parts of a range come back alone and join again", "[block][extents]") {
  ExtentAllocator extents{64};
  const Extent all = extents.allocate(64);
  for (std::uint32_t unit = 0; unit < 64; ++unit) {
    extents.free({.start = unit ^ 21U, .units = 1});
  }
  CHECK(extents.free_units() == 64);
  CHECK(extents.allocate(64).start == all.start);
}

TEST_CASE("ranges never overlap under random calls", "[block][extents]") {
  constexpr std::uint32_t kUnits = 1000;
  std::mt19937 random{1};
  ExtentAllocator extents{kUnits};
  std::vector<bool> taken(kUnits);
  std::vector<Extent> held;
  std::uint32_t used = 0;
  for (int i = 0; i < 5000; ++i) {
    if (random() % 2 == 0 || held.empty()) {
      const std::uint32_t asked = 1 + static_cast<std::uint32_t>(random() % 90);
      const Extent extent = extents.allocate(asked);
      REQUIRE(extent.units <= asked);
      REQUIRE((extent.units != 0 || used == kUnits));
      for (std::uint32_t unit = extent.start; unit < extent.start + extent.units; ++unit) {
        REQUIRE_FALSE(taken[unit]);
        taken[unit] = true;
      }
      used += extent.units;
      if (extent.units != 0) {
        held.push_back(extent);
      }
    } else {
      // Its first part, or all of it.
      Extent& extent = held[random() % held.size()];
      const std::uint32_t part = 1 + static_cast<std::uint32_t>(random() % extent.units);
      extents.free({.start = extent.start, .units = part});
      for (std::uint32_t unit = extent.start; unit < extent.start + part; ++unit) {
        taken[unit] = false;
      }
      used -= part;
      extent.start += part;
      extent.units -= part;
      if (extent.units == 0) {
        extent = held.back();
        held.pop_back();
      }
    }
    REQUIRE(extents.free_units() == kUnits - used);
  }
  for (std::uint32_t unit = 0; unit < kUnits; ++unit) {
    REQUIRE(extents.is_free(unit) != taken[unit]);
  }
}

}  // namespace
}  // namespace kvpool::block
