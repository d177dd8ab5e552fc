// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What every page memory has to do, written once. A test of a backend calls page_memory_suite()
// from a test case; each section makes a fresh memory.
#pragma once

#include <kvpool/memory/page_memory.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

namespace kvpool::test {

/// A backend under test.
struct PageMemoryCase {
  /// Makes a memory that nothing has been reserved from, with room for at least 16 granules.
  std::function<AnyPageMemory()> make;
  /// Whether this process can write to committed addresses.
  bool writable = false;
};

/// A byte of a writable memory.
inline std::uint8_t& byte_at(const Region& region, Bytes offset) {
  return *reinterpret_cast<std::uint8_t*>(region.address +
                                          static_cast<std::uintptr_t>(offset.count()));
}

/// The code of a failed result. @pre it failed
template <typename T>
ErrorCode code_of(const Result<T>& result) {
  REQUIRE_FALSE(result.has_value());
  CHECK_FALSE(result.error().message.empty());
  return result.error().code;
}

/// Checks the contract of PageMemory.
inline void page_memory_suite(const PageMemoryCase& backend) {
  AnyPageMemory memory = backend.make();
  const Bytes granule = memory.granularity();
  REQUIRE(granule >= Bytes{1});
  REQUIRE(memory.held() == Bytes{0});
  const auto reserve = [&memory](Bytes size) {
    const auto region = memory.reserve(size);
    REQUIRE(region.has_value());
    CHECK(region->size == size);
    return *region;
  };

  SECTION("reserving commits nothing and returns aligned addresses") {
    const Region region = reserve(granule * 3);
    CHECK(region.address != 0);
    CHECK(region.address % 256 == 0);
    CHECK(region.address % static_cast<std::uintptr_t>(granule.count()) == 0);
    CHECK(memory.held() == Bytes{0});
  }

  SECTION("live regions do not overlap") {
    const Region a = reserve(granule * 3);
    const Region b = reserve(granule);
    const Region c = reserve(granule * 2);
    const auto end = [](const Region& region) {
      return region.address + static_cast<std::uintptr_t>(region.size.count());
    };
    CHECK((end(a) <= b.address || end(b) <= a.address));
    CHECK((end(a) <= c.address || end(c) <= a.address));
    CHECK((end(b) <= c.address || end(c) <= b.address));
  }

  SECTION("a size that is not a positive multiple of the granularity is not reserved") {
    CHECK(code_of(memory.reserve(Bytes{0})) == ErrorCode::kInvalidArgument);
    CHECK(code_of(memory.reserve(Bytes{0} - granule)) == ErrorCode::kInvalidArgument);
    if (granule > Bytes{1}) {
      CHECK(code_of(memory.reserve(granule - Bytes{1})) == ErrorCode::kInvalidArgument);
      CHECK(code_of(memory.reserve(granule + Bytes{1})) == ErrorCode::kInvalidArgument);
    }
  }

  SECTION("more than there are addresses is exhausted, and does not overflow") {
    const std::int64_t granules = std::numeric_limits<std::int64_t>::max() / granule.count();
    CHECK(code_of(memory.reserve(granule * granules)) == ErrorCode::kExhausted);
    reserve(granule);
  }

  SECTION("held follows commit, decommit and release") {
    const Region a = reserve(granule * 4);
    const Region b = reserve(granule * 2);
    CHECK(memory.commit(a, Bytes{0}, granule * 3).has_value());
    CHECK(memory.held() == granule * 3);
    CHECK(memory.commit(b, granule, granule).has_value());
    CHECK(memory.held() == granule * 4);
    CHECK(memory.decommit(a, granule, granule).has_value());
    CHECK(memory.held() == granule * 3);
    CHECK(memory.release(a).has_value());
    CHECK(memory.held() == granule);
    CHECK(memory.release(b).has_value());
    CHECK(memory.held() == Bytes{0});
  }

  SECTION("a committed range is not committed again, not even in part") {
    const Region region = reserve(granule * 6);
    REQUIRE(memory.commit(region, granule * 2, granule * 2).has_value());
    for (const auto& [first, count] : {std::pair{2, 2}, std::pair{2, 1}, std::pair{3, 1},
                                       std::pair{0, 6}, std::pair{1, 2}, std::pair{3, 2}}) {
      INFO("granules " << first << " + " << count);
      CHECK(code_of(memory.commit(region, granule * first, granule * count)) ==
            ErrorCode::kInvalidArgument);
    }
    CHECK(memory.held() == granule * 2);
    CHECK(memory.commit(region, Bytes{0}, granule * 2).has_value());
    CHECK(memory.commit(region, granule * 4, granule * 2).has_value());
    CHECK(memory.held() == granule * 6);
  }

  SECTION("a range that is not committed, not even in part, is not decommitted") {
    const Region region = reserve(granule * 6);
    CHECK(code_of(memory.decommit(region, Bytes{0}, granule)) == ErrorCode::kInvalidArgument);
    REQUIRE(memory.commit(region, granule, granule * 2).has_value());
    REQUIRE(memory.commit(region, granule * 4, granule).has_value());
    for (const auto& [first, count] :
         {std::pair{0, 1}, std::pair{0, 2}, std::pair{2, 2}, std::pair{1, 4}, std::pair{5, 1}}) {
      INFO("granules " << first << " + " << count);
      CHECK(code_of(memory.decommit(region, granule * first, granule * count)) ==
            ErrorCode::kInvalidArgument);
    }
    CHECK(memory.held() == granule * 3);
  }

  SECTION("ranges committed one by one are decommitted together") {
    const Region region = reserve(granule * 3);
    REQUIRE(memory.commit(region, granule * 2, granule).has_value());
    REQUIRE(memory.commit(region, Bytes{0}, granule).has_value());
    REQUIRE(memory.commit(region, granule, granule).has_value());
    CHECK(memory.decommit(region, Bytes{0}, granule * 3).has_value());
    CHECK(memory.held() == Bytes{0});
    CHECK(memory.commit(region, Bytes{0}, granule * 3).has_value());
  }

  SECTION("ranges that are empty, misaligned or beyond the region are refused") {
    const Region region = reserve(granule * 2);
    const auto refused = [&](Bytes offset, Bytes size) {
      INFO("offset " << offset.count() << ", size " << size.count());
      CHECK(code_of(memory.commit(region, offset, size)) == ErrorCode::kInvalidArgument);
      CHECK(code_of(memory.decommit(region, offset, size)) == ErrorCode::kInvalidArgument);
    };
    refused(Bytes{0}, Bytes{0});
    refused(Bytes{0}, Bytes{0} - granule);
    refused(Bytes{0} - granule, granule);
    refused(granule * 2, granule);
    refused(granule, granule * 2);
    refused(Bytes{0}, granule * 3);
    const std::int64_t most = std::numeric_limits<std::int64_t>::max() / granule.count();
    refused(granule * most, granule);
    if (granule > Bytes{1}) {
      refused(Bytes{1}, granule);
      refused(Bytes{0}, granule + Bytes{1});
      refused(Bytes{0}, granule - Bytes{1});
    }
    CHECK(memory.held() == Bytes{0});
  }

  SECTION("only a live region, as it was reserved, is accepted") {
    const Region region = reserve(granule * 2);
    const Region resized{.address = region.address, .size = granule};
    const Region moved{.address = region.address + static_cast<std::uintptr_t>(granule.count()),
                       .size = granule};
    for (const Region& wrong : {Region{}, resized, moved}) {
      CHECK(code_of(memory.commit(wrong, Bytes{0}, granule)) == ErrorCode::kInvalidArgument);
      CHECK(code_of(memory.decommit(wrong, Bytes{0}, granule)) == ErrorCode::kInvalidArgument);
      CHECK(code_of(memory.release(wrong)) == ErrorCode::kInvalidArgument);
    }
    REQUIRE(memory.release(region).has_value());
    CHECK(code_of(memory.release(region)) == ErrorCode::kInvalidArgument);
    CHECK(code_of(memory.commit(region, Bytes{0}, granule)) == ErrorCode::kInvalidArgument);
  }

  SECTION("released room is there again") {
    for (int i = 0; i < 100; ++i) {
      const Region region = reserve(granule * 8);
      REQUIRE(memory.commit(region, Bytes{0}, granule * 8).has_value());
      REQUIRE(memory.release(region).has_value());
    }
    CHECK(memory.held() == Bytes{0});
  }

  SECTION("copies share the memory") {
    AnyPageMemory copy = memory;
    CHECK(copy == memory);
    CHECK_FALSE(copy == backend.make());
    const Region region = reserve(granule);
    CHECK(copy.commit(region, Bytes{0}, granule).has_value());
    CHECK(memory.held() == granule);
    CHECK(copy.release(region).has_value());
    CHECK(memory.held() == Bytes{0});
  }

  if (backend.writable) {
    SECTION("committed bytes are written and read, the first and the last") {
      const Region region = reserve(granule * 3);
      REQUIRE(memory.commit(region, Bytes{0}, granule).has_value());
      REQUIRE(memory.commit(region, granule * 2, granule).has_value());
      for (const Bytes at : {Bytes{0}, granule - Bytes{1}, granule * 2, granule * 3 - Bytes{1}}) {
        byte_at(region, at) = 0xa5;
        CHECK(byte_at(region, at) == 0xa5);
      }
    }
  }
}

}  // namespace kvpool::test
