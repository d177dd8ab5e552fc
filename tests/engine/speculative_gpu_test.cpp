// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The engine of examples/speculative_engine on a GPU, in bf16: kvpool's append, packed attention,
// page copy and table updates, with the speculative step in one graph. Its text is the target's
// alone, as the host computes it; where rounding may decide between the two best tokens either is
// taken, and the host follows.
#include "kernels/gpu_support.hpp"
#include "speculative_engine/scenario.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace example {
namespace {

using kvpool::test::must;

Outcome run(const Scenario& scenario) {
  const auto backend = must(make_cuda_backend());
  return must(run_scenario(scenario, kvpool::CapabilityRegistry::with_known_kernels(), *backend));
}

Scenario small_scenario() {
  Scenario scenario = gpu_scenario();
  scenario.requests = 64;
  scenario.max_output = 160;
  scenario.engine.rows = 32;
  scenario.planned_sequences = 8;
  scenario.engine.check_every = 16;
  return scenario;
}

void check_lossless(const Outcome& outcome) {
  CHECK(outcome.finished == outcome.submitted + static_cast<std::size_t>(outcome.statistics.forks));
  CHECK(outcome.compared > 1'000);
  CHECK(outcome.wrong == 0);
  CHECK(outcome.near_ties * 100 <= outcome.compared);
  CHECK(outcome.statistics.findings == 0);
  CHECK(outcome.leaked == 0);
}

TEST_CASE("the engine on a GPU says what the target says alone, whatever the pages", "[engine]") {
  kvpool::test::Measurements measured{
      "speculative_engine",
      "target_page,steps,tokens,sequences_a_step,scheduling_us,kernels_us,compared,near_ties,ties"};
  for (const std::int64_t page : {64, 32, 128, 16}) {
    INFO("target page " << page);
    Scenario scenario = small_scenario();
    scenario.target_page = page;
    const Outcome outcome = run(scenario);
    check_lossless(outcome);
    const Statistics& statistics = outcome.statistics;
    CHECK(std::ranges::all_of(statistics.accepted, [](auto count) { return count >= 50; }));
    CHECK(outcome.counters.hits > 0);
    CHECK(statistics.forks > 0);
    CHECK(statistics.copied_pages > 0);
    CHECK(outcome.counters.evicted_blocks > 0);
    CHECK(statistics.preemptions > 0);
    measured.row(
        page, statistics.steps, statistics.generated,
        static_cast<double>(statistics.running_rows) / static_cast<double>(statistics.steps),
        static_cast<double>(statistics.scheduling_ns) / 1e3 / static_cast<double>(statistics.steps),
        static_cast<double>(statistics.kernels_ns) / 1e3 / static_cast<double>(statistics.steps),
        outcome.compared, outcome.near_ties, outcome.ties);
  }
}

TEST_CASE("one graph serves all lengths and tables, and its capture allocates nothing",
          "[engine]") {
  const Outcome outcome = run(small_scenario());
  // The first step runs without a graph, so that all kernels are loaded.
  CHECK(outcome.graph.captures == 1);
  CHECK(outcome.graph.replays == outcome.statistics.speculative_steps - 1);
  CHECK(outcome.graph.replays > 50);
  CHECK(outcome.graph.nodes > 10);
  CHECK(outcome.graph.allocations == 0);
  CHECK(outcome.graph.held == kvpool::Bytes{0});
  check_lossless(outcome);
}

TEST_CASE("on a GPU, too, the drafter may be switched off and admissions refused", "[engine]") {
  Scenario scenario = small_scenario();
  SECTION("switched off midway") {
    scenario.engine.drafter_off_at = 30;
    const Outcome outcome = run(scenario);
    check_lossless(outcome);
    CHECK(outcome.statistics.speculative_steps < 30);
  }
  SECTION("refused and tried again") {
    scenario.refuse_every = 11;
    scenario.engine.draft = kvpool::DraftMode::kRequired;
    const Outcome outcome = run(scenario);
    check_lossless(outcome);
    CHECK(outcome.statistics.admitted_later > 0);
  }
}

TEST_CASE("scheduling takes less than a twentieth of a step of 64 sequences", "[engine]") {
  Scenario scenario = gpu_scenario();
  scenario.max_output = 120;
  scenario.planned_sequences = 64;
  const Outcome outcome = run(scenario);
  const Statistics& statistics = outcome.statistics;
  CHECK(statistics.scheduling_ns * 20 <= statistics.scheduling_ns + statistics.kernels_ns);
  kvpool::test::Measurements measured{"speculative_engine_64",
                                      "steps,sequences,scheduling,kernels"};
  measured.row(statistics.steps, statistics.running_rows, statistics.scheduling_ns,
               statistics.kernels_ns);
}

}  // namespace
}  // namespace example
