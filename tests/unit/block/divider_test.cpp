// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block/divider.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <random>

namespace kvpool::block {
namespace {

TEST_CASE("a divider divides as the processor does", "[block][divider]") {
  constexpr std::int64_t kMost = (std::int64_t{1} << 32) - 1;
  std::mt19937_64 random{5};
  for (const std::int64_t by : {1L, 2L, 3L, 7L, 16L, 48L, 65'536L, 1'000'003L, (1L << 31) - 1}) {
    const Divider divider{by};
    for (int i = 0; i < 2000; ++i) {
      // At and around multiples, where an error would show first.
      const auto any = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(kMost));
      for (const std::int64_t value : {any, any / by * by, any / by * by + by - 1}) {
        if (value >= 0 && value <= kMost - by) {
          REQUIRE(divider.floor(value) == value / by);
          REQUIRE(divider.ceil(value) == (value + by - 1) / by);
        }
      }
    }
    CHECK(divider.floor(kMost) == kMost / by);
    CHECK(divider.floor(0) == 0);
  }
}

}  // namespace
}  // namespace kvpool::block
