// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Random calls against the naive model. In the environment KVPOOL_RANDOM_CALLS is the number of
// calls (10^5 by default; the long run has 10^7), KVPOOL_RANDOM_SEED the first seed.
#include "property/block_world.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace kvpool::test {
namespace {

std::int64_t from_environment(const char* name, std::int64_t otherwise) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return text == nullptr ? otherwise : std::stoll(text);
}

/// Calls in one world before the next begins: a fresh one finds other states than an old one.
constexpr std::int64_t kCallsPerWorld = 4'000;

TEST_CASE("random calls agree with a naive model", "[block_manager]") {
  const std::int64_t calls = from_environment("KVPOOL_RANDOM_CALLS", 100'000);
  auto seed = static_cast<std::uint64_t>(from_environment("KVPOOL_RANDOM_SEED", 1));
  const std::vector<WorldShape> shapes = world_shapes();
  std::vector<WorldCounts> counts(shapes.size());
  WorldCounts all;
  while (all.calls < calls) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const auto world = std::make_unique<BlockWorld>(shapes[i], seed);
      for (std::int64_t call = 0; call < kCallsPerWorld && world->failure().empty(); ++call) {
        world->step(call % 16 == 0);
      }
      world->drain();
      INFO("seed " << seed);
      REQUIRE(world->failure() == "");
      counts[i] += world->counts();
      all += world->counts();
      ++seed;
    }
  }

  // That nothing disagreed says something only if things happened, in proportion to the calls.
  const auto floor = [&](std::int64_t per_100k) { return calls * per_100k / 100'000; };
  CHECK(all.admitted >= floor(4'000));
  CHECK(all.hits >= floor(1'500));
  CHECK(all.partial_hits >= floor(200));
  CHECK(all.forks >= floor(800));
  CHECK(all.evictions >= floor(1'500));
  CHECK(all.refusals >= floor(1'000));
  CHECK(all.unsettled >= floor(200));
  CHECK(all.over_quota >= floor(50));
  CHECK(all.injected >= floor(10'000));
  CHECK(all.rejects_across_pages >= floor(800));
  CHECK(all.window_moves >= floor(300));
  CHECK(all.snapshots >= floor(300));
  CHECK(all.restored >= floor(50));
  CHECK(all.resumed >= floor(200));
  CHECK(all.duplicates >= floor(300));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    INFO(shapes[i].name);
    CHECK(counts[i].hits > 0);
    CHECK(counts[i].forks > 0);
    CHECK(counts[i].evictions > 0);
    CHECK(counts[i].refusals > 0);
    CHECK(counts[i].rejects_across_pages > 0);
  }
}

}  // namespace
}  // namespace kvpool::test
