// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Plans the cache of a model and of its drafter from their config.json files: pools, capacity,
// every choice that was made, and what a refusal looks like. No GPU is needed.
//
//   example_plan_a_model MODEL.json DRAFTER.json
#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/capability/device_spec.hpp>
#include <kvpool/core/size_text.hpp>
#include <kvpool/io/model_config_io.hpp>
#include <kvpool/plan/planner.hpp>

#include "claims.hpp"

#include <iostream>
#include <string>
#include <utility>

namespace {

using kvpool::Result;

/// What is asked of the plan: 16 ranks of GB200, four sequences of 128 Ki tokens.
Result<kvpool::PlanRequest> make_request(const std::string& model, const std::string& drafter) {
  // A config says what each layer keeps. A kind of layer that kvpool does not know is an error that
  // names file, key and value; it is never priced as another kind.
  Result<kvpool::ModelConfig> target = kvpool::io::read_model_config(model);
  if (!target) {
    return std::move(target).error();
  }
  Result<kvpool::ModelConfig> draft = kvpool::io::read_model_config(drafter);
  if (!draft) {
    return std::move(draft).error();
  }
  kvpool::PlanRequest request{.target = *std::move(target)};
  request.drafter =
      kvpool::DrafterRequest{.kind = kvpool::DrafterKind::kDspark, .model = *std::move(draft)};
  request.parallelism.tensor = 16;
  request.device = kvpool::find_device("gb200");
  request.workload.max_num_seqs = kvpool::Sequences{4};
  request.workload.max_model_len = kvpool::Tokens{131'072};
  return request;
}

void print_pools(const kvpool::Plan& plan) {
  for (const kvpool::PoolDescriptor& pool : plan.ranks[plan.smallest_rank].pools) {
    std::cout << pool.name << ": " << kvpool::size_text(pool.charged_bytes()) << '\n';
    for (const kvpool::PooledGroup& group : pool.groups) {
      std::cout << "  " << kvpool::group_name(group.group) << ": " << group.planned_pages().count()
                << " x " << group.page.page_bytes.count() << " B";
      if (!group.group.is_state) {
        std::cout << ", pages of " << group.page.tokens_per_block.count() << " tokens";
      }
      std::cout << '\n';
    }
  }
  std::cout << plan.capacity.tokens.count() << " tokens; " << plan.capacity.sequences.count()
            << " sequences of " << plan.resolution.max_model_len.count() << "\n\n";
}

/// A decision still runs; a refusal does not, and says what would.
void print_choices(const kvpool::Plan& plan) {
  for (const kvpool::Decision& decision : plan.decisions) {
    std::cout << decision.id << ": " << decision.chosen
              << (decision.instead_of.empty() ? "" : " instead of ") << decision.instead_of
              << "\n  " << decision.reason << '\n';
    if (!decision.cost.unit.empty()) {
      std::cout << "  costs " << decision.cost.value << ' ' << decision.cost.unit << " ("
                << decision.cost.conditions << ")\n";
    }
  }
  for (const kvpool::Refusal& refusal : plan.refusals) {
    std::cout << "refused, " << refusal.id << ": " << refusal.what << "\n  missing "
              << kvpool::size_text(refusal.missing_bytes)
              << "; would work: " << refusal.least_that_works << '\n';
  }
  std::cout << '\n';
}

/// The lines below `kv_budget` are what became of it.
bool ledger_sums_to_the_budget(const kvpool::Plan& plan) {
  kvpool::Bytes budget;
  kvpool::Bytes sum;
  bool below = false;
  for (const kvpool::LedgerLine& line : plan.ledger) {
    if (line.name == "kv_budget") {
      budget = line.bytes;
      below = true;
    } else if (below) {
      sum += line.bytes;
    }
  }
  return below && sum == budget;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cout << "usage: example_plan_a_model MODEL.json DRAFTER.json\n";
    return 2;
  }
  Result<kvpool::PlanRequest> request = make_request(argv[1], argv[2]);
  if (!request) {
    return example::fail(request.error());
  }
  const auto registry = kvpool::CapabilityRegistry::with_known_kernels();
  const Result<kvpool::Plan> plan = kvpool::make_plan(*request, registry);
  if (!plan) {
    return example::fail(plan.error());  // the request itself is malformed
  }
  print_choices(*plan);
  if (!plan->fits) {
    return example::fail(plan->refusals.front());  // four sequences of 128 Ki tokens do not fit
  }
  print_pools(*plan);
  example::Claims claims;
  claims.claim(ledger_sums_to_the_budget(*plan), "the ledger accounts for every byte");
  claims.claim(plan->capacity.sequences >= kvpool::Sequences{4}, "the capacity says so, too");

  // Ask for too much: the answer is still a plan, with what is missing and the least that works.
  request->workload.max_num_seqs = kvpool::Sequences{64};
  const Result<kvpool::Plan> too_much = kvpool::make_plan(*request, registry);
  if (!too_much) {
    return example::fail(too_much.error());
  }
  std::cout << "\n64 sequences:\n";
  print_choices(*too_much);
  claims.claim(!too_much->fits && too_much->refusals.front().missing_bytes.count() > 0,
               "64 of them are refused, with the bytes that are missing");

  // An engine that may adapt takes what the plan says would fit, and plans again.
  request->workload.max_num_seqs = too_much->capacity.sequences;
  const Result<kvpool::Plan> adapted = kvpool::make_plan(*request, registry);
  claims.claim(adapted.has_value() && adapted->fits, "the number that it names instead fits");
  return claims.exit_code();
}
