// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Law 1: what is charged is what is allocated, and both are what the layers say. The expected bytes
// come from oracle.cpp, which knows the config's keys and nothing of this project.
#include "scenario.hpp"

#include "support/catch.hpp"
#include "support/guarded_memory.hpp"

#include <kvpool/memory/host_memory.hpp>
#include <kvpool/memory/simulated_memory.hpp>
#include <kvpool/pool/pool_set.hpp>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace kvpool {
namespace {

using test::Config;
using test::Scenario;

/// A drafter as the sweep uses it.
struct Drafter {
  std::optional<DrafterKind> kind;
  const Config* config = nullptr;
};

/// Allocates a plan's ranks on `memory` and compares ledger and memory with the plan.
std::string allocate_and_compare(const Plan& plan, std::int64_t granule) {
  for (const PoolPlan& rank : plan.ranks) {
    auto memory = SimulatedMemory::create({.granularity = Bytes{granule}});
    if (!memory) {
      return memory.error().message;
    }
    auto pools = PoolSet::create(rank.pools, AnyPageMemory{*memory});
    if (!pools) {
      return pools.error().message;
    }
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < rank.pools.size(); ++i) {
      const PoolCharge& line = pools->ledger()[i];
      if (line.charged != line.held || line.charged != rank.accounts[i].charged ||
          line.charged > rank.accounts[i].share) {
        return line.pool + ": charged " + std::to_string(line.charged.count()) + ", held " +
               std::to_string(line.held.count());
      }
      sum += line.held.count();
    }
    if (memory->held().count() != sum) {
      return "the memory holds " + std::to_string(memory->held().count()) + ", the ledger says " +
             std::to_string(sum);
    }
    if (sum > rank.budget.count()) {
      return "more is held than the budget";
    }
  }
  return {};
}

struct Counts {
  std::int64_t accepted = 0;
  std::map<std::string, std::int64_t> refused;
};

std::string join(const std::set<std::string>& ids) {
  std::string all;
  for (const std::string& id : ids) {
    all += all.empty() ? id : "+" + id;
  }
  return all;
}

/// One combination; the first thing that is wrong with it, or empty.
std::string check(const Scenario& s, const PlanRequest& request, Counts& counts) {
  const auto plan = make_plan(request, test::known());
  if (!plan) {
    return "error: " + plan.error().message;
  }
  const oracle::Request law = test::law_of(s);
  const std::set<std::string> expected = oracle::refusals(law);
  std::set<std::string> refused;
  for (const Refusal& refusal : plan->refusals) {
    refused.insert(refusal.id);
  }
  if (!expected.empty() || !plan->resolution.refusals.empty()) {
    if (refused != expected || plan->fits || !plan->ranks.empty()) {
      return "refused for {" + join(refused) + "} and not {" + join(expected) + "}";
    }
    ++counts.refused[join(expected)];
    return {};
  }
  const std::vector<oracle::Stage> stages = oracle::plan(law);
  if (plan->fits != oracle::fits(stages)) {
    return std::string{plan->fits ? "fits" : "does not fit"} + ", unlike the oracle";
  }
  if (std::string text = test::difference(*plan, stages); !text.empty()) {
    return text;
  }
  if (std::string text = allocate_and_compare(*plan, s.granule); !text.empty()) {
    return text;
  }
  ++counts.accepted;
  return {};
}

/// Every target x drafter x page x tp x format.
Counts sweep(const std::vector<Config>& targets, const std::vector<Drafter>& drafters) {
  Counts counts;
  int failures = 0;
  for (const Config& target : targets) {
    for (const Drafter& drafter : drafters) {
      if (drafter.kind == DrafterKind::kMtp && target.law.mtp_layers == 0) {
        continue;
      }
      Scenario s{.target = &target, .drafter = drafter.kind, .drafter_config = drafter.config};
      s.sequences = 4;
      s.length = std::min<std::int64_t>(4096, target.law.max_positions);
      PlanRequest request = test::request_of(s);
      for (s.page = 16; s.page <= 128; s.page *= 2) {
        request.tokens_per_block = Tokens{s.page};
        for (s.tp = 1; s.tp <= 16; s.tp *= 2) {
          request.parallelism.tensor = s.tp;
          for (const KvDtype dtype : all_kv_dtypes()) {
            s.dtype = dtype;
            request.kv_dtype = dtype;
            const std::string wrong = check(s, request, counts);
            if (!wrong.empty() && ++failures <= 20) {
              UNSCOPED_INFO(s.text());
              CHECK(wrong.empty());
              WARN(s.text() << ": " << wrong);
            }
          }
        }
      }
    }
  }
  CHECK(failures == 0);
  return counts;
}

std::vector<Config> targets_of(std::vector<Config> configs) {
  std::erase_if(configs, [](const Config& config) { return config.model.drafter.has_value(); });
  return configs;
}

/// The drafters that every target is planned with.
struct Drafters {
  Config dspark_96 = test::own_config("dspark-k3-96x16");
  Config dspark_64 = test::own_config("dspark-k3-64x16");
  Config dspark_mla = test::own_config("dspark-mla-5x576");
  Config dflash = test::own_config("dflash-5-full");
  Config dflash_mixed = test::own_config("dflash-4-sliding-1-full");
  Config eagle3 = test::own_config("eagle3-llama-8b");
  Config domino = test::own_config("domino-5-full");
  Config peagle = test::own_config("peagle-4");

  [[nodiscard]] std::vector<Drafter> all() const {
    return {{},
            {.kind = DrafterKind::kDspark, .config = &dspark_96},
            {.kind = DrafterKind::kDspark, .config = &dspark_64},
            {.kind = DrafterKind::kDspark, .config = &dspark_mla},
            {.kind = DrafterKind::kDflash, .config = &dflash},
            {.kind = DrafterKind::kDflash, .config = &dflash_mixed},
            {.kind = DrafterKind::kEagle3, .config = &eagle3},
            {.kind = DrafterKind::kDomino, .config = &domino},
            {.kind = DrafterKind::kPeagle, .config = &peagle},
            {.kind = DrafterKind::kMtp}};
  }
};

}  // namespace

TEST_CASE("cost equals allocation for every bundled config, drafter, page, tp and format") {
  const auto folder = test::read_folder(std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs");
  CHECK(folder.refused == std::vector<std::string>{"deepseek-v4-flash"});
  const std::vector<Config> targets = targets_of(folder.configs);
  CHECK(targets.size() == 34);
  const Drafters drafters;
  const Counts counts = sweep(targets, drafters.all());
  CHECK(counts.accepted == 0);
  CHECK(counts.refused == std::map<std::string, std::int64_t>{});
}

}  // namespace kvpool
