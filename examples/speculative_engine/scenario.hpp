// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// A whole run: plan, pools, manager, engine, requests, and what came of it. The program and the
// tests, on the host and on a GPU, are runs with different settings.
#pragma once

#include <kvpool/block/block_manager_counters.hpp>
#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/plan/pool_plan.hpp>

#include "backend.hpp"
#include "engine.hpp"
#include "jobs.hpp"
#include "model.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace example {

/// What is run.
struct Scenario {
  ModelShape shape{};
  kvpool::kernels::ElementType type = kvpool::kernels::ElementType::kFp32;
  std::uint64_t seed = 1;
  /// Page of the target; the drafter's is the registry's choice unless it is given.
  std::int64_t target_page = 64;
  std::optional<std::int64_t> draft_page{};
  /// Sequences of `max_length` that the budget has room for; more rows than these compete.
  std::int64_t planned_sequences = 2;
  std::int64_t max_length = 576;
  /// Longest sequence that the drafter follows; 0: `max_length`.
  std::int64_t draft_max_length = 0;
  /// Unit in which memory is mapped.
  kvpool::Bytes granularity{4096};
  std::int64_t requests = 17;
  std::size_t max_output = 240;
  /// Of proposals that are the target's own.
  double rate = 0.82;
  EngineOptions engine{};
  /// Fill pages with NaN when they are given back.
  bool poison = true;
  /// Refuse this page, counted from 1, and every further one in so many; 0: never.
  std::int64_t refuse_every = 0;
};

/// What a GPU runs: 64 sequences, and shapes that packed attention takes.
[[nodiscard]] Scenario gpu_scenario();

/// What came of it.
struct Outcome {
  Statistics statistics{};
  kvpool::BlockManagerCounters counters{};
  std::vector<kvpool::PoolDescriptor> pools{};
  /// Groups by name, in the order of the statistics, with the pages that each could have.
  std::vector<std::string> groups{};
  std::vector<std::int64_t> pages{};
  /// What the plan chose in place of something else, and what it lost.
  std::vector<kvpool::Decision> decisions{};
  std::string backend{};
  GraphUse graph{};
  std::size_t submitted = 0;
  std::size_t finished = 0;
  /// Tokens that were compared with the target alone, of how many requests.
  std::int64_t compared = 0;
  /// Tokens that it would not have said.
  std::int64_t wrong = 0;
  /// Tokens where its two best were equal as far as the format can tell, and the second was said.
  std::int64_t ties = 0;
  /// Tokens where they were equal as far as the format can tell, whichever was said.
  std::int64_t near_ties = 0;
  /// Smallest difference of its two best logits.
  float smallest_gap = 0.0F;
  /// Pages of any group that are not free at the end.
  std::int64_t leaked = 0;
};

/// The request that a scenario plans with, in the budget given.
[[nodiscard]] kvpool::PlanRequest plan_request(const Scenario& scenario, kvpool::Bytes budget);

/// A plan in the smallest budget that `planned_sequences` fit into. @return the plan; it may be
/// refused for other reasons
[[nodiscard]] kvpool::Result<kvpool::Plan> plan_scenario(const Scenario& scenario,
                                                         const kvpool::CapabilityRegistry& rows);

/// Runs it to the end.
/// @param backend fresh; a back-end serves one run
[[nodiscard]] kvpool::Result<Outcome> run_scenario(const Scenario& scenario,
                                                   const kvpool::CapabilityRegistry& rows,
                                                   Backend& backend);

}  // namespace example
