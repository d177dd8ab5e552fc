// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Speculation is lossless: what the engine of examples/speculative_engine generates, over paged
// pools of different page sizes, with prefix hits, forks, eviction, preemption and rejected drafts,
// is what the target generates alone, one token at a time, with a dense cache. In fp32 exactly:
// both add up in the same order, so that not even a tie may differ.
#include "speculative_engine/scenario.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace example {
namespace {

Outcome run(const Scenario& scenario) {
  const auto backend = make_cpu_backend();
  auto outcome = run_scenario(scenario, kvpool::CapabilityRegistry::with_known_kernels(), *backend);
  if (!outcome) {
    FAIL(kvpool::to_string(outcome.error()));
  }
  return *std::move(outcome);
}

/// A scenario of a sixth of the work, for what changes how the engine runs.
Scenario short_scenario() {
  Scenario scenario;
  scenario.requests = 6;
  scenario.max_output = 130;
  return scenario;
}

std::int64_t page_of(const Outcome& outcome, const std::string& pool) {
  const auto found = std::ranges::find(outcome.pools, pool, &kvpool::PoolDescriptor::name);
  REQUIRE(found != outcome.pools.end());
  return found->groups.front().page.tokens_per_block.count();
}

void check_lossless(const Outcome& outcome) {
  CHECK(outcome.finished == outcome.submitted + static_cast<std::size_t>(outcome.statistics.forks));
  CHECK(outcome.compared > 500);
  CHECK(outcome.wrong == 0);
  CHECK(outcome.statistics.resumed_otherwise == 0);
  CHECK(outcome.statistics.findings == 0);
  CHECK(outcome.leaked == 0);
}

TEST_CASE("the engine says what the target says alone, whatever the pages", "[lossless]") {
  struct Pages {
    std::int64_t target, draft;
  };
  const auto pages = GENERATE(values<Pages>({{64, 64}, {32, 32}, {128, 32}, {16, 32}}));
  INFO("target " << pages.target << ", draft " << pages.draft);
  Scenario scenario{.target_page = pages.target};
  scenario.engine.check_every = 16;
  const Outcome outcome = run(scenario);
  check_lossless(outcome);
  CHECK(outcome.ties == 0);
  CHECK(outcome.near_ties == 0);

  // The drafter's page is the registry's choice, out of one budget.
  CHECK(page_of(outcome, "target") == pages.target);
  CHECK(page_of(outcome, "draft") == pages.draft);

  // All of it happened.
  const Statistics& statistics = outcome.statistics;
  CHECK(statistics.steps >= 200);
  for (std::size_t length = 0; length < 8; ++length) {
    INFO("drafts accepted " << length);
    CHECK(statistics.accepted.at(length) >= 50);
  }
  CHECK(outcome.counters.hits >= 2);
  CHECK(statistics.forks >= 3);
  CHECK(statistics.copied_pages >= 6);
  CHECK(outcome.counters.evicted_blocks >= 20);
  CHECK(outcome.counters.evicted_pages >= 20);
  CHECK(statistics.preemptions >= 10);
  CHECK(statistics.suspensions >= 3);
  CHECK(statistics.resumed_alike >= 10);
  CHECK(statistics.admitted_later >= 10);
  CHECK(statistics.target_pages_rejected >= 20);
  CHECK(statistics.draft_pages_rejected >= 20);
}

TEST_CASE("the text stays the target's when the drafter is switched off midway", "[lossless]") {
  Scenario scenario = short_scenario();
  scenario.engine.drafter_off_at = 30;
  const Outcome outcome = run(scenario);
  check_lossless(outcome);
  CHECK(outcome.statistics.speculative_steps > 15);
  CHECK(outcome.statistics.speculative_steps < 30);
  CHECK(outcome.statistics.generated > outcome.statistics.by_blocks + 200);
}

TEST_CASE("the text stays the target's where sequences outgrow the drafter", "[lossless]") {
  Scenario scenario = short_scenario();
  scenario.draft_max_length = 110;
  const Outcome outcome = run(scenario);
  check_lossless(outcome);
  CHECK(outcome.statistics.by_blocks > 100);
  CHECK(outcome.statistics.generated > 2 * outcome.statistics.by_blocks);
}

TEST_CASE("the text stays the target's when pools refuse pages and admissions are tried again",
          "[lossless]") {
  const auto every = GENERATE(8, 23);
  Scenario scenario = short_scenario();
  scenario.target_page = 32;
  scenario.refuse_every = every;
  scenario.engine.check_every = 1;
  SECTION("with the drafter, or not at all") {
    scenario.engine.draft = kvpool::DraftMode::kRequired;
    const Outcome outcome = run(scenario);
    check_lossless(outcome);
    CHECK(outcome.statistics.refused_admissions > 0);
    CHECK(outcome.statistics.admitted_later > 0);
    CHECK(outcome.statistics.without_drafter == 0);
  }
  SECTION("without the drafter where it has no room") {
    const Outcome outcome = run(scenario);
    check_lossless(outcome);
  }
}

TEST_CASE("the text stays the target's in 16 bits, where few tokens are a matter of rounding",
          "[lossless]") {
  Scenario scenario = short_scenario();
  scenario.shape.attention = 0.15F;
  scenario.type = kvpool::kernels::ElementType::kBf16;
  const Outcome outcome = run(scenario);
  check_lossless(outcome);
  CHECK(outcome.near_ties > 0);
  CHECK(outcome.near_ties * 100 <= outcome.compared);
}

TEST_CASE("what a GPU would launch is planned and checked on the host", "[lossless]") {
  // Heads that packed attention takes: the host's back-end makes the plan of every layer of every
  // pass, and asks whether the kernel takes it. Anything that it does not take ends the run.
  Scenario scenario = gpu_scenario();
  scenario.engine.rows = 4;
  scenario.planned_sequences = 2;
  scenario.requests = 3;
  scenario.max_output = 60;
  scenario.target_page = GENERATE(16, 128);
  const Outcome outcome = run(scenario);
  CHECK(outcome.compared > 100);
  CHECK(outcome.wrong == 0);
  CHECK(outcome.leaked == 0);
}

/// The host's back-end, which once makes a page of a running sequence NaN, as if it had been given
/// back while it is read.
class Meddler final : public Backend {
 public:
  explicit Meddler(std::string group) : group_{std::move(group)}, backend_{make_cpu_backend()} {}

  [[nodiscard]] std::string name() const override { return backend_->name(); }
  [[nodiscard]] BackendMemory memory() const override { return backend_->memory(); }
  kvpool::Result<void> set_up(const BackendSetup& setup) override {
    setup_ = setup;
    return backend_->set_up(setup);
  }
  [[nodiscard]] std::uintptr_t arrays() const override { return backend_->arrays(); }
  void poison(std::uintptr_t address, kvpool::Bytes bytes) noexcept override {
    backend_->poison(address, bytes);
  }
  kvpool::Result<void> copy_pages(const kvpool::CacheGroup& group,
                                  std::span<const kvpool::kernels::PageCopyPair> pairs) override {
    return backend_->copy_pages(group, pairs);
  }
  kvpool::Result<void> apply_tables(const kvpool::TableUpdate& update) override {
    return backend_->apply_tables(update);
  }
  kvpool::Result<Extended> extend(std::int32_t tokens, std::int32_t most) override {
    return backend_->extend(tokens, most);
  }
  kvpool::Result<Verified> speculate() override {
    if (++steps_ == 20) {
      meddle();
    }
    return backend_->speculate();
  }

 private:
  void meddle() {
    const auto groups = setup_.manager->groups();
    const auto found = std::ranges::find(groups, group_, &kvpool::CacheGroup::name);
    REQUIRE(found != groups.end());
    const kvpool::GroupId group{static_cast<std::int32_t>(found - groups.begin())};
    const auto sequence = setup_.manager->next_live(0);
    REQUIRE(sequence.has_value());
    const kvpool::GroupView view = setup_.manager->view(*sequence, group);
    // That of the last final token, which every token after it sees.
    const kvpool::Tokens last = setup_.manager->lengths(*sequence).committed - kvpool::Tokens{1};
    REQUIRE(last >= kvpool::Tokens{});
    const auto block = static_cast<std::size_t>(last / found->tokens_per_block);
    backend_->poison(setup_.pools->entry_address(found->pool, view.entries[block]),
                     found->page_bytes);
  }

  std::string group_;
  std::unique_ptr<Backend> backend_;
  BackendSetup setup_;
  int steps_ = 0;
};

Outcome run_meddled(const std::string& group) {
  Scenario scenario = short_scenario();
  scenario.target_page = 32;
  Meddler backend{group};
  auto outcome = run_scenario(scenario, kvpool::CapabilityRegistry::with_known_kernels(), backend);
  REQUIRE(outcome.has_value());
  return *std::move(outcome);
}

TEST_CASE("a page of the target that is given back while it is read shows in the text",
          "[lossless]") {
  const auto group = GENERATE(as<std::string>{}, "target/full", "target/sliding_window_40");
  CHECK(run_meddled(group).wrong > 0);
}

TEST_CASE("a broken page of the drafter costs drafts, and leaves the text alone", "[lossless]") {
  check_lossless(run_meddled("draft/full"));
}

}  // namespace
}  // namespace example
