// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block/timing_wheel.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <vector>

namespace kvpool::block {
namespace {

std::vector<std::uint32_t> advance(TimingWheel& wheel, std::int64_t now) {
  std::vector<std::uint32_t> fired;
  wheel.advance(now, [&fired](std::uint32_t i) { fired.push_back(i); });
  return fired;
}

TEST_CASE("timers fire in time and in order, however far the clock jumps", "[block][timers]") {
  TimingWheel wheel{8};
  wheel.arm(0, 100);
  wheel.arm(1, 5);
  wheel.arm(2, 100'000);
  wheel.arm(3, std::numeric_limits<std::int64_t>::max());
  wheel.arm(4, 64);
  CHECK(advance(wheel, 4).empty());
  CHECK(advance(wheel, 5) == std::vector<std::uint32_t>{1});
  CHECK(advance(wheel, 99) == std::vector<std::uint32_t>{4});
  CHECK(advance(wheel, 1'000'000) == std::vector<std::uint32_t>{0, 2});
  CHECK(wheel.armed(3));
  CHECK(advance(wheel, std::numeric_limits<std::int64_t>::max()) == std::vector<std::uint32_t>{3});
}

TEST_CASE("a timer that is disarmed does not fire, and one that is due does", "[block][timers]") {
  TimingWheel wheel{4};
  CHECK(advance(wheel, 50).empty());
  wheel.arm(0, 60);
  wheel.arm(1, 60);
  wheel.disarm(0);
  wheel.disarm(0);
  wheel.arm(2, 10);
  CHECK(advance(wheel, 50) == std::vector<std::uint32_t>{2});
  CHECK(advance(wheel, 60) == std::vector<std::uint32_t>{1});
  // Time does not go back.
  wheel.arm(0, 61);
  CHECK(advance(wheel, 1).empty());
  CHECK(advance(wheel, 61) == std::vector<std::uint32_t>{0});
}

TEST_CASE("a wheel agrees with a sorted map", "[block][timers]") {
  std::mt19937_64 random{3};
  TimingWheel wheel{64};
  std::map<std::uint32_t, std::int64_t> model;
  std::int64_t now = -1000;
  for (int i = 0; i < 20'000; ++i) {
    const auto timer = static_cast<std::uint32_t>(random() % 64);
    if (random() % 3 != 0) {
      wheel.disarm(timer);
      const std::int64_t at = now + static_cast<std::int64_t>(random() % (1ULL << (random() % 40)));
      wheel.arm(timer, at);
      model[timer] = at;
    } else {
      now += static_cast<std::int64_t>(random() % (1ULL << (random() % 40)));
      std::int64_t last = std::numeric_limits<std::int64_t>::min();
      for (const std::uint32_t fired : advance(wheel, now)) {
        REQUIRE(model.contains(fired));
        REQUIRE(model[fired] <= now);
        REQUIRE(model[fired] >= last);
        last = model[fired];
        model.erase(fired);
      }
      for (const auto& [left, at] : model) {
        REQUIRE(at > now);
        REQUIRE(wheel.armed(left));
      }
    }
  }
}

}  // namespace
}  // namespace kvpool::block
