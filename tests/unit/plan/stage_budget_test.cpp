// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// Pipeline stages that load different weights have different budgets.
#include <kvpool/plan/planner.hpp>

#include "support/catch.hpp"
#include "support/models.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr Tokens kStep{8192};

/// Five layers of 2 GiB each, a token table of 1 GiB and a head of `head` GiB.
ModelConfig five_layers(std::int64_t head) {
  ModelConfig model = test::llama_8b();
  model.layers.resize(5);
  StoredWeights weights{.stored = Bytes{(11 + head) * kGiB}, .tensors = 7, .files = 1};
  const auto add = [&weights](WeightPlace place, std::int64_t layer, std::int64_t gib) {
    weights.parts.push_back({place, layer, WeightSplit::kReplicated, 0, 0, Bytes{gib * kGiB}});
  };
  add(WeightPlace::kEmbedding, 0, 1);
  add(WeightPlace::kHead, 0, head);
  for (std::int64_t layer = 0; layer < 5; ++layer) {
    add(WeightPlace::kLayer, layer, 2);
  }
  model.weights = weights;
  return model;
}

/// Two stages, of three and of two layers, on GPUs of 40 GiB.
PlanRequest two_stages(std::int64_t head) {
  return {.target = five_layers(head),
          .parallelism = {.pipeline = 2},
          .budget = {.gpu_memory = Bytes{40 * kGiB},
                     .utilization_ppm = 1'000'000,
                     .overhead = Bytes{3 * kGiB}},
          .workload = {.max_num_seqs = Sequences{1}, .max_model_len = Tokens{4096}}};
}

Plan plan_of(const PlanRequest& request, BudgetEnd end = BudgetEnd::kExpected) {
  const auto resolution = resolve(request, CapabilityRegistry::with_known_kernels());
  REQUIRE(resolution.has_value());
  auto plan = allocate_plan(request, *resolution, end);
  REQUIRE(plan.has_value());
  return *std::move(plan);
}

std::vector<std::int64_t> gib_of(const Plan& plan) {
  std::vector<std::int64_t> out;
  for (const PoolPlan& rank : plan.ranks) {
    CHECK(rank.budget.count() % kGiB == 0);
    out.push_back(rank.budget.count() / kGiB);
  }
  return out;
}

}  // namespace

TEST_CASE("every stage has what its own weights leave", "[plan]") {
  // 40 - 3 - (1 + 3 x 2) and 40 - 3 - (2 x 2 + head).
  const Plan light = plan_of(two_stages(1));
  CHECK(gib_of(light) == std::vector<std::int64_t>{30, 32});
  CHECK(light.smallest_rank == 0);
  const Plan heavy = plan_of(two_stages(21));
  CHECK(gib_of(heavy) == std::vector<std::int64_t>{30, 12});
  // 30 GiB over three layers are more tokens than 12 over two.
  CHECK(heavy.smallest_rank == 1);
  CHECK(heavy.ledger_stage == 1);
  CHECK(heavy.find_line("weights")->bytes == Bytes{25 * kGiB});
  CHECK(heavy.find_line("kv_budget")->bytes == heavy.ranks[1].budget);
}

TEST_CASE("the stage with the least memory need not be the one that runs out first", "[plan]") {
  // 30 GiB over three layers are fewer tokens than 22 over two.
  const Plan plan = plan_of(two_stages(11));
  CHECK(gib_of(plan) == std::vector<std::int64_t>{30, 22});
  CHECK(plan.smallest_rank == 0);
  CHECK(plan.ledger_stage == 0);
  CHECK(plan.find_line("weights")->bytes == Bytes{7 * kGiB});
  Bytes below;
  const auto budget = std::ranges::find(plan.ledger, "kv_budget", &LedgerLine::name);
  REQUIRE(budget != plan.ledger.end());
  for (auto line = budget + 1; line != plan.ledger.end(); ++line) {
    below += line->bytes;
  }
  CHECK(below == Bytes{30 * kGiB});
  // The engines' ledgers take the stage with the least left.
  const PlanRequest request = two_stages(11);
  const auto ledger =
      budget_ledger(request.budget, {}, request.parallelism, kStep, request.target, nullptr);
  REQUIRE(ledger.has_value());
  CHECK(ledger->back().bytes == Bytes{22 * kGiB});
}

TEST_CASE("what is missing is what every GPU lacks", "[plan]") {
  for (const std::int64_t head : {1, 21}) {
    INFO("head of " << head << " GiB");
    PlanRequest request = two_stages(head);
    // 12 KiB a token on three layers, 8 KiB on two.
    request.workload = {.max_num_seqs = Sequences{64}, .max_model_len = Tokens{65'536}};
    const Plan plan = plan_of(request);
    REQUIRE_FALSE(plan.fits);
    REQUIRE(plan.refusals.size() == 1);
    const Refusal& refusal = plan.refusals[0];
    CHECK(refusal.what.find(head == 1 ? "of stage 0" : "of stage 1") != std::string::npos);
    request.budget.gpu_memory = Bytes{40 * kGiB} + refusal.missing_bytes;
    CHECK(plan_of(request).fits);
    *request.budget.gpu_memory -= Bytes{1};
    CHECK_FALSE(plan_of(request).fits);
  }
}

TEST_CASE("a KV budget that would work does so on all stages", "[plan]") {
  PlanRequest request = two_stages(21);
  request.workload = {.max_num_seqs = Sequences{64}, .max_model_len = Tokens{65'536}};
  // The last stage lacks most, the first one needs most: three layers of 4 KiB a token.
  const std::string what = plan_of(request).refusals.at(0).least_that_works;
  constexpr std::string_view kStart = "a KV budget of ";
  REQUIRE(what.starts_with(kStart));
  std::string digits;
  for (const char c : what.substr(kStart.size(), what.find(" B") - kStart.size())) {
    if (c != ',') {
      digits += c;
    }
  }
  request.budget = {.kv_budget = Bytes{std::stoll(digits)}};
  const Plan least = plan_of(request);
  CHECK(least.fits);
  CHECK(least.ranks[0].budget == least.ranks[1].budget);
  *request.budget.kv_budget -= Bytes{1};
  CHECK_FALSE(plan_of(request).fits);
}

TEST_CASE("at their worst every stage has its own lines", "[plan]") {
  PlanRequest request = two_stages(11);
  request.target.weights->parts[1].split = WeightSplit::kUnsure;  // the head, on the last stage
  request.parallelism.tensor = 1;
  request.budget.overhead.reset();
  request.budget.overheads = {};
  const auto ledgers =
      stage_ledgers(request.budget, {}, request.parallelism, kStep, request.target, nullptr);
  REQUIRE(ledgers.has_value());
  const Plan plan = plan_of(request, BudgetEnd::kLow);
  REQUIRE(plan.ranks.size() == 2);
  for (std::size_t stage = 0; stage < 2; ++stage) {
    CHECK(plan.ranks[stage].budget == (*ledgers)[stage].back().low);
    CHECK((*ledgers)[stage].back().low < (*ledgers)[stage].back().bytes);
  }
}

TEST_CASE("more stages than layers are refused before a ledger is made for each", "[plan]") {
  PlanRequest request = two_stages(11);
  const auto stages = [&](std::int64_t pipeline) {
    request.parallelism.pipeline = pipeline;
    return stage_ledgers(request.budget, {}, request.parallelism, kStep, request.target, nullptr);
  };
  CHECK(stages(5).has_value());  // five layers
  for (const std::int64_t too_many : {std::int64_t{6}, std::int64_t{1} << 60}) {
    const auto refused = stages(too_many);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
    CHECK(refused.error().key == "pipeline_parallel_size");
  }
}

TEST_CASE("an Eagle3 drafter weighs on the last stage alone", "[plan]") {
  ModelConfig drafter = five_layers(1);
  drafter.drafter = DrafterTraits{.kind = DrafterKind::kEagle3, .block_tokens = Tokens{1}};
  const PlanRequest request = two_stages(1);
  const auto bytes = [&](const ModelConfig& of) {
    const auto ledgers =
        stage_ledgers(request.budget, {}, request.parallelism, kStep, request.target, &of);
    REQUIRE(ledgers.has_value());
    std::vector<std::int64_t> gib;
    for (const std::vector<LedgerLine>& lines : *ledgers) {
      const auto line = std::ranges::find(lines, "draft_weights", &LedgerLine::name);
      REQUIRE(line != lines.end());
      gib.push_back(line->bytes.count() / kGiB);
    }
    return gib;
  };
  CHECK(bytes(drafter) == std::vector<std::int64_t>{0, 12});
  drafter.drafter->kind = DrafterKind::kDflash;
  CHECK(bytes(drafter) == std::vector<std::int64_t>{7, 5});
  // Estimates are divided evenly over the stages.
  drafter.weights.reset();
  drafter.parameters = {.plain = Elements{4 * kGiB}, .plain_bits = 16};
  CHECK(bytes(drafter) == std::vector<std::int64_t>{4, 4});
  drafter.drafter->kind = DrafterKind::kEagle3;
  CHECK(bytes(drafter) == std::vector<std::int64_t>{0, 8});
}

}  // namespace kvpool
