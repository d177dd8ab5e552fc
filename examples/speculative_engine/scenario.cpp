// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "scenario.hpp"

#include <kvpool/plan/planner.hpp>

#include "dense_decoder.hpp"
#include "proposals.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

namespace example {

using kvpool::Bytes;
using kvpool::Result;
using kvpool::Tokens;

namespace {

/// Refuses pages, as a pool that is used up would.
struct Gate {
  std::int64_t every = 0;
  std::int64_t asked = 0;

  static bool admits(void* gate, kvpool::PoolId /*pool*/, std::int32_t /*group*/) {
    Gate& self = *static_cast<Gate*>(gate);
    return ++self.asked % self.every != 0;
  }
};

/// Where a page is that was given back.
struct Poisoner {
  const kvpool::PoolSet* pools = nullptr;
  Backend* backend = nullptr;

  static void poison(void* poisoner, kvpool::PoolId pool, kvpool::PageId page, Bytes bytes) {
    const Poisoner& self = *static_cast<Poisoner*>(poisoner);
    self.backend->poison(self.pools->entry_address(pool, page.value()), bytes);
  }
};

/// Prompts around a page of each pool and around a prefix block, which share beginnings.
std::vector<Request> make_requests(const Scenario& scenario, std::int64_t draft_page) {
  std::mt19937_64 random{scenario.seed};
  const auto draw = [&] {
    return static_cast<std::int32_t>(random() %
                                     static_cast<std::uint64_t>(scenario.shape.vocabulary));
  };
  const std::int64_t longer = std::max(scenario.target_page, draft_page);
  std::vector<std::int32_t> instructions(static_cast<std::size_t>(2 * longer + 2));
  std::ranges::generate(instructions, draw);
  const std::vector<std::int64_t> lengths = {scenario.target_page - 1,
                                             scenario.target_page,
                                             scenario.target_page + 1,
                                             draft_page - 1,
                                             draft_page,
                                             draft_page + 1,
                                             longer + 9,
                                             2 * longer + 1};
  std::vector<Request> requests;
  for (std::int64_t i = 0; i < scenario.requests; ++i) {
    Request request{.name = static_cast<std::int32_t>(i),
                    .max_output = scenario.max_output - static_cast<std::size_t>(i % 5 * 7),
                    .arrives = i * 5,
                    .has_branch = i % 6 == 1,
                    .pauses_at = i % 6 == 4 ? std::size_t{60} : std::size_t{0}};
    const auto length =
        static_cast<std::size_t>(lengths[static_cast<std::size_t>(i) % lengths.size()]);
    // Two of three begin with the same instructions.
    for (std::size_t t = 0; t < length; ++t) {
      request.prompt.push_back(i % 3 != 2 && t + 1 < length ? instructions[t] : draw());
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

/// Compares what was said with what the target says alone, which follows it.
void compare(const std::vector<Job>& jobs, ProposalMixer& mixer, Outcome& outcome) {
  outcome.smallest_gap = std::numeric_limits<float>::infinity();
  for (const Job& job : jobs) {
    const std::vector<std::int32_t> tokens = job.tokens();
    const std::size_t prompt = job.request.prompt.size();
    for (std::size_t i = job.given; i < job.output.size(); ++i) {
      const Choice choice = mixer.alone(job.request.name).next(std::span{tokens}.first(prompt + i));
      const bool is_tie = choice.gap < choice.tie && job.output[i] == choice.second;
      ++outcome.compared;
      outcome.near_ties += choice.gap < choice.tie ? 1 : 0;
      outcome.ties += is_tie ? 1 : 0;
      outcome.wrong += job.output[i] == choice.best || is_tie ? 0 : 1;
      outcome.smallest_gap = std::min(outcome.smallest_gap, choice.gap);
    }
    mixer.forget(job.request.name);
  }
}

/// Pages that are not free when everything has ended and nothing is cached.
std::int64_t pages_left(kvpool::BlockManager& manager) {
  manager.complete_until(manager.opened());
  manager.flush_cache();
  std::int64_t left = 0;
  for (std::size_t g = 0; g < manager.groups().size(); ++g) {
    const kvpool::GroupId group{static_cast<std::int32_t>(g)};
    left += (manager.held_pages(group) + manager.evictable_pages(group)).count();
  }
  for (std::size_t p = 0; p < manager.pools().size(); ++p) {
    const auto& pool = manager.page_pool(kvpool::PoolId{static_cast<std::int32_t>(p)});
    left += (manager.pools()[p].slabs - pool.free_slabs()).count();
  }
  return left;
}

}  // namespace

Scenario gpu_scenario() {
  Scenario scenario{.shape = {.vocabulary = 128,
                              .hidden = 128,
                              .query_heads = 4,
                              .kv_heads = 2,
                              .head_dim = 64,
                              .mlp = 256,
                              .attention = 0.15F},
                    .type = kvpool::kernels::ElementType::kBf16,
                    .planned_sequences = 48,
                    .max_length = 640,
                    .granularity = Bytes{2 << 20},
                    .requests = 96,
                    .max_output = 300};
  scenario.engine.rows = 64;
  return scenario;
}

kvpool::PlanRequest plan_request(const Scenario& scenario, Bytes budget) {
  kvpool::PlanRequest request{
      .target = target_config(scenario.shape, scenario.type, scenario.max_length)};
  request.drafter = kvpool::DrafterRequest{
      .kind = kvpool::DrafterKind::kDflash,
      .model = drafter_config(scenario.shape, scenario.type, scenario.max_length),
      .num_draft_tokens = Tokens{kDrafts}};
  if (scenario.draft_page.has_value()) {
    request.drafter->tokens_per_block = Tokens{*scenario.draft_page};
  }
  request.tokens_per_block = Tokens{scenario.target_page};
  // One budget for both pools.
  request.budget.kv_budget = budget;
  request.workload = {.max_num_seqs = kvpool::Sequences{scenario.planned_sequences},
                      .max_model_len = Tokens{scenario.max_length},
                      .max_batched_tokens = scenario.engine.chunk};
  request.granularity = scenario.granularity;
  return request;
}

Result<kvpool::Plan> plan_scenario(const Scenario& scenario,
                                   const kvpool::CapabilityRegistry& rows) {
  Bytes budget{1 << 20};
  for (;;) {
    auto plan = kvpool::make_plan(plan_request(scenario, budget), rows);
    if (!plan || plan->fits || plan->refusals.front().missing_bytes <= Bytes{}) {
      return plan;
    }
    // A refusal says how much is missing.
    budget += plan->refusals.front().missing_bytes;
  }
}

Result<Outcome> run_scenario(const Scenario& scenario, const kvpool::CapabilityRegistry& rows,
                             Backend& backend) {
  const auto plan = plan_scenario(scenario, rows);
  if (!plan) {
    return plan.error();
  }
  if (!plan->fits) {
    return kvpool::Error{.code = kvpool::ErrorCode::kUnsupported,
                         .message = plan->refusals.front().what};
  }
  auto pools = kvpool::PoolSet::create(plan->ranks.front().pools, backend.memory().pools);
  if (!pools) {
    return std::move(pools).error();
  }
  Gate gate{.every = scenario.refuse_every};
  Poisoner poisoner{.pools = &*pools, .backend = &backend};
  kvpool::BlockManagerOptions options{.max_sequences = kvpool::Sequences{scenario.engine.rows},
                                      .max_length = Tokens{scenario.max_length}};
  if (scenario.draft_max_length > 0) {
    options.draft_max_length = Tokens{scenario.draft_max_length};
  }
  if (scenario.poison) {
    options.on_free = {.call = Poisoner::poison, .context = &poisoner};
  }
  if (scenario.refuse_every > 0) {
    options.gate = {.admits = Gate::admits, .context = &gate};
  }
  auto manager = kvpool::BlockManager::create(plan->ranks.front().pools, options);
  if (!manager) {
    return std::move(manager).error();
  }

  const Models models = make_models(scenario.shape, scenario.seed);
  ProposalMixer mixer{models.target, scenario.type, scenario.rate, scenario.seed};
  auto engine = Engine::create(scenario.engine, models, *pools, *manager, backend, mixer);
  if (!engine) {
    return std::move(engine).error();
  }
  const auto requests = make_requests(scenario, plan->resolution.draft_page->count());
  for (const Request& request : requests) {
    (*engine)->submit(request);
  }
  Outcome outcome{.pools = plan->ranks.front().pools,
                  .decisions = plan->decisions,
                  .backend = backend.name(),
                  .submitted = requests.size()};
  for (std::size_t g = 0; g < manager->groups().size(); ++g) {
    outcome.groups.push_back(manager->groups()[g].name);
    outcome.pages.push_back(
        manager->available_pages(kvpool::GroupId{static_cast<std::int32_t>(g)}).count());
  }
  constexpr std::int64_t kTooManySteps = 20'000;
  while (!(*engine)->is_idle() && (*engine)->statistics().steps < kTooManySteps) {
    if (auto done = (*engine)->step(); !done) {
      return std::move(done).error();
    }
  }
  outcome.finished = (*engine)->finished().size();
  outcome.statistics = (*engine)->statistics();
  outcome.counters = manager->counters();
  outcome.graph = backend.graph();
  compare((*engine)->finished(), mixer, outcome);
  outcome.leaked = pages_left(*manager);
  return outcome;
}

}  // namespace example
