// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// `solve` inverts `plan`: for every question the answer fits, and the next step does not. Both are
// asked of `make_plan` here, on requests that this file builds by itself from the answer's number.
#include <kvpool/plan/planner.hpp>
#include <kvpool/solve/sequence_use.hpp>
#include <kvpool/solve/solver.hpp>

#include "dice.hpp"
#include "scenario.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace kvpool {
namespace {

using test::Config;
using test::Dice;

bool plan_fits(const PlanRequest& request) {
  const auto plan = make_plan(request, test::known());
  return plan.has_value() && plan->fits;
}

/// The project's own configs, told apart.
struct Models {
  std::vector<Config> targets;
  std::vector<Config> drafters;
};

const Models& models() {
  static const Models all = [] {
    Models found;
    for (Config& config :
         test::read_folder(std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs").configs) {
      (config.model.drafter.has_value() ? found.drafters : found.targets)
          .push_back(std::move(config));
    }
    return found;
  }();
  return all;
}

/// A deployment at random: any target, any drafter that has a config, any split.
PlanRequest rolled(Dice& dice) {
  PlanRequest request;
  request.target = dice.of(models().targets).model;
  request.parallelism.tensor = std::int64_t{1} << dice.below(5);
  request.parallelism.pipeline = dice.one_in(4) ? 2 : 1;
  request.parallelism.attention_data_parallel = dice.one_in(6);
  if (!request.parallelism.attention_data_parallel && dice.one_in(5)) {
    request.parallelism.decode_context = request.parallelism.tensor;
  }
  request.budget.kv_budget = Bytes{dice.spread(28, 38)};
  request.workload.max_model_len = Tokens{dice.spread(8, 18)};
  if (!dice.one_in(4)) {
    request.workload.max_num_seqs = Sequences{dice.spread(0, 7)};
  }
  request.kv_dtype = dice.of(
      std::vector{KvDtype::kBf16, KvDtype::kFp8E4m3, KvDtype::kInt8PerTokenHead, KvDtype::kNvfp4});
  if (dice.one_in(2)) {
    request.tokens_per_block = Tokens{std::int64_t{16} << dice.below(4)};
  }
  request.reserved_pages = dice.below(3);
  if (dice.one_in(3)) {
    request.granularity = Bytes{std::int64_t{1} << (12 + dice.below(14))};
  }
  if (dice.one_in(2)) {
    const Config& drafter = dice.of(models().drafters);
    request.drafter = DrafterRequest{
        .kind = drafter.model.drafter->kind.value_or(DrafterKind::kDflash), .model = drafter.model};
  } else if (request.target.mtp_layers.count() > 0 && dice.one_in(2)) {
    request.drafter = DrafterRequest{.kind = DrafterKind::kMtp};
  }
  return request;
}

std::string text_of(const PlanRequest& request) {
  return request.target.name + ", tp " + std::to_string(request.parallelism.tensor) + ", pp " +
         std::to_string(request.parallelism.pipeline) + ", dcp " +
         std::to_string(request.parallelism.decode_context) + ", " +
         (request.drafter.has_value() ? std::string{to_string(request.drafter->kind)} : "alone") +
         ", budget " + std::to_string(request.budget.kv_budget.value_or(Bytes{-1}).count()) +
         ", length " + std::to_string(request.workload.max_model_len.value_or(Tokens{-1}).count()) +
         ", sequences " +
         std::to_string(request.workload.max_num_seqs.value_or(Sequences{-1}).count());
}

/// Deployments that are not refused for another reason than bytes.
std::vector<PlanRequest> deployments(std::uint64_t seed, std::size_t count) {
  Dice dice{seed};
  std::vector<PlanRequest> all;
  while (all.size() < count) {
    PlanRequest request = rolled(dice);
    const auto plan = make_plan(request, test::known());
    if (plan.has_value() && plan->resolution.refusals.empty()) {
      all.push_back(std::move(request));
    }
  }
  return all;
}

/// One sequence in every pool of every stage.
Bytes held_by_all(const Plan& plan, Tokens length) {
  Bytes sum;
  for (const PoolPlan& rank : plan.ranks) {
    for (const PoolDescriptor& pool : rank.pools) {
      sum += sequence_use(plan, pool, length).held;
    }
  }
  return sum;
}

LengthMix some_mix(Tokens longest) {
  return parse_percentiles(
             "p50=64,p90=" + std::to_string(std::max<std::int64_t>(longest.count() / 4, 64)),
             longest)
      .value();
}

}  // namespace

TEST_CASE("the longest sequence fits and a token more does not", "[solve]") {
  int found = 0;
  int none = 0;
  for (PlanRequest request : deployments(11, 60)) {
    INFO(text_of(request));
    const auto answer = solve_max_model_len(request, test::known());
    REQUIRE(answer.has_value());
    const std::int64_t memory = answer->find_figure("memory_alone")->value;
    const auto positions = request.target.max_positions;
    if (memory > 0) {
      request.workload.max_model_len = Tokens{memory};
      CHECK(plan_fits(request));
      CHECK(answer->value ==
            (positions.has_value() ? std::min(memory, positions->count()) : memory));
      CHECK(plan_fits(answer->request));
      CHECK(answer->request.workload.max_model_len == Tokens{answer->value});
      ++found;
    } else {
      CHECK_FALSE(answer->found);
      ++none;
    }
    if (memory < std::int64_t{1} << 40) {
      request.workload.max_model_len = Tokens{memory + 1};
      CHECK_FALSE(plan_fits(request));
      REQUIRE(answer->beyond.has_value());
      CHECK(*answer->beyond == request);
      CHECK_FALSE(answer->binding.id.empty());
    }
  }
  CHECK(found >= 30);
  CHECK(none >= 1);
}

TEST_CASE("the most sequences fit and one more does not", "[solve]") {
  int found = 0;
  for (PlanRequest request : deployments(12, 60)) {
    INFO(text_of(request));
    const auto answer = solve_max_num_seqs(request, test::known());
    REQUIRE(answer.has_value());
    CHECK(answer->found == (answer->value > 0));
    if (answer->found) {
      request.workload.max_num_seqs = Sequences{answer->value};
      CHECK(plan_fits(request));
      CHECK(answer->request == request);
      ++found;
    }
    request.workload.max_num_seqs = Sequences{answer->value + 1};
    CHECK_FALSE(plan_fits(request));
    CHECK(answer->binding.missing.count() > 0);
  }
  CHECK(found >= 30);
}

TEST_CASE("a mix of one length asks what Plan::fits asks", "[solve]") {
  int fitting = 0;
  int others = 0;
  for (const PlanRequest& request : deployments(13, 400)) {
    INFO(text_of(request));
    const auto plan = make_plan(request, test::known());
    REQUIRE(plan.has_value());
    const LengthCount all{.length = plan->resolution.max_model_len,
                          .sequences = plan->resolution.sequences};
    CHECK(plan->fits == !pool_that_runs_out(*plan, std::span{&all, 1}).has_value());
    (plan->fits ? fitting : others) += 1;
  }
  CHECK(fitting >= 50);
  CHECK(others >= 50);
}

TEST_CASE("the most sequences of a mix are held and one more is not", "[solve]") {
  int more_than_longest = 0;
  for (PlanRequest request : deployments(14, 40)) {
    INFO(text_of(request));
    const LengthMix mix = some_mix(*request.workload.max_model_len);
    const auto answer = solve_max_num_seqs(request, test::known(), mix);
    REQUIRE(answer.has_value());
    const auto holds = [&](std::int64_t sequences) {
      request.workload.max_num_seqs = Sequences{sequences};
      const auto plan = make_plan(request, test::known());
      return plan.has_value() &&
             !pool_that_runs_out(*plan, sequences_of(mix, Sequences{sequences}));
    };
    if (answer->found) {
      CHECK(holds(answer->value));
    }
    CHECK_FALSE(holds(answer->value + 1));
    const auto uniform = solve_max_num_seqs(request, test::known());
    REQUIRE(uniform.has_value());
    CHECK(answer->value >= uniform->value);
    more_than_longest += answer->value > uniform->value ? 1 : 0;
  }
  CHECK(more_than_longest >= 15);
}

TEST_CASE("the smallest share of the GPU fits and a millionth less does not", "[solve]") {
  int found = 0;
  for (PlanRequest request : deployments(15, 30)) {
    request.budget.kv_budget.reset();
    request.budget.gpu_memory = Bytes{std::int64_t{80} << 30};
    request.budget.weights = Bytes{std::int64_t{30} << 30};
    INFO(text_of(request));
    const auto answer = solve_gpu_memory_utilization(request, test::known());
    REQUIRE(answer.has_value());
    if (answer->found) {
      request.budget.utilization_ppm = answer->value;
      CHECK(plan_fits(request));
      if (answer->value > 1) {
        request.budget.utilization_ppm = answer->value - 1;
        CHECK_FALSE(plan_fits(request));
      }
      ++found;
    } else {
      request.budget.utilization_ppm = 1'000'000;
      CHECK_FALSE(plan_fits(request));
    }
    // The largest share leaves as much as everything above the budget can turn out to take.
    const std::int64_t largest = answer->find_figure("largest")->value;
    const auto taken = [&](std::int64_t ppm) {
      request.budget.utilization_ppm = ppm;
      const auto plan = make_plan(request, test::known());
      std::int64_t most = plan->find_line("kv_budget")->bytes.count();
      for (const LedgerLine& line : plan->ledger) {
        if (line.name == "kv_budget") {
          break;
        }
        most += line.name == "device_total" || line.name == "withheld" ? 0 : line.high.count();
      }
      return most;
    };
    const std::int64_t memory = request.budget.gpu_memory->count();
    CHECK(taken(largest) <= memory);
    if (largest < 1'000'000) {
      CHECK(taken(largest + 1) > memory);
    }
  }
  CHECK(found >= 10);
}

TEST_CASE("no deployment of fewer GPUs holds the sequences", "[solve]") {
  int found = 0;
  bool with_weights = false;
  for (PlanRequest request : deployments(16, 24)) {
    request.parallelism = {};
    with_weights = !with_weights;
    if (with_weights) {
      // Copies of the weights make replicas dearer than ranks.
      request.budget.kv_budget.reset();
      request.budget.gpu_memory = Bytes{std::int64_t{40} << 30};
      request.budget.overhead = Bytes{std::int64_t{1} << 30};
    }
    request.workload.max_num_seqs = Sequences{24};
    INFO(text_of(request));
    const GpuSearch limits{.most = 16, .most_tensor = 8, .most_pipeline = 4};
    const auto answer = solve_gpus(request, test::known(), limits);
    REQUIRE(answer.has_value());
    std::int64_t fewest = 1'000;
    const std::int64_t heads = request.target.query_heads.count();
    for (std::int64_t tp = 1; tp <= 8 && (heads == 0 || heads % tp == 0); tp *= 2) {
      for (const std::int64_t pp : {1, 2, 3, 4}) {
        for (std::int64_t dp = 1; tp * pp * dp <= 16; ++dp) {
          PlanRequest other = request;
          other.parallelism.tensor = tp;
          other.parallelism.pipeline = pp;
          other.parallelism.data = dp;
          other.workload.max_num_seqs = Sequences{(24 + dp - 1) / dp};
          if (tp * pp * dp < fewest && plan_fits(other)) {
            fewest = tp * pp * dp;
          }
        }
      }
    }
    CHECK(answer->found == (fewest < 1'000));
    if (answer->found) {
      CHECK(answer->value == fewest);
      CHECK(plan_fits(answer->request));
      ++found;
    }
    if (answer->beyond.has_value()) {
      CHECK_FALSE(plan_fits(*answer->beyond));
    }
  }
  CHECK(found >= 8);
}

TEST_CASE("the format that is answered fits and the next wider one does not", "[solve]") {
  int narrowed = 0;
  for (const PlanRequest& request : deployments(17, 40)) {
    INFO(text_of(request));
    const auto answer = solve_kv_cache_dtype(request, test::known());
    REQUIRE(answer.has_value());
    std::int64_t before = -1;
    for (const Candidate& candidate : answer->candidates) {
      PlanRequest other = request;
      other.kv_dtype = parse_kv_dtype(candidate.name);
      REQUIRE(other.kv_dtype.has_value());
      CHECK(plan_fits(other) == candidate.fits);
      if (!candidate.figures.empty()) {
        // Widest first.
        CHECK((before < 0 || candidate.figures[0].value <= before));
        before = candidate.figures[0].value;
      }
    }
    if (answer->found) {
      CHECK(plan_fits(answer->request));
    }
    if (answer->beyond.has_value()) {
      CHECK_FALSE(plan_fits(*answer->beyond));
      narrowed += answer->found ? 1 : 0;
    }
  }
  CHECK(narrowed >= 2);
}

TEST_CASE("as many drafter layers and draft tokens as fit, and not one more", "[solve]") {
  int layers = 0;
  for (PlanRequest request : deployments(18, 60)) {
    if (!request.drafter.has_value()) {
      continue;
    }
    INFO(text_of(request));
    if (const auto answer = solve_drafter_layers(request, test::known()); answer.has_value()) {
      if (answer->found) {
        CHECK(plan_fits(answer->request));
        const PlanRequest& with = answer->request;
        CHECK((with.drafter->model.has_value()
                   ? static_cast<std::int64_t>(with.drafter->model->layers.size())
                   : with.target.mtp_layers.count()) == answer->value);
        ++layers;
      }
      if (answer->beyond.has_value()) {
        CHECK_FALSE(plan_fits(*answer->beyond));
      }
    }
    const auto tokens = solve_num_draft_tokens(request, test::known());
    REQUIRE(tokens.has_value());
    if (tokens->found) {
      request.drafter->num_draft_tokens = Tokens{tokens->value};
      CHECK(plan_fits(request));
    }
    if (tokens->beyond.has_value()) {
      request.drafter->num_draft_tokens = Tokens{tokens->value + 1};
      CHECK_FALSE(plan_fits(request));
    }
  }
  CHECK(layers >= 8);
}

TEST_CASE("the exact need fits and a byte less does not", "[solve]") {
  int known = 0;
  for (PlanRequest request : deployments(19, 150)) {
    INFO(text_of(request));
    const auto need = least_kv_budget(request, test::known());
    REQUIRE(need.has_value());
    if (!need->has_value()) {
      continue;
    }
    request.budget.kv_budget = **need;
    CHECK(plan_fits(request));
    request.budget.kv_budget = **need - Bytes{1};
    CHECK_FALSE(plan_fits(request));
    ++known;
  }
  CHECK(known >= 100);
}

// The budget of two pools is split by a fixed formula whose shares are cut to slabs and granules,
// so the least budget of target and draft together may go down by less than those. What sequences
// hold may not.
TEST_CASE("twice the tensor parallel size never needs more bytes of a rank", "[solve]") {
  int less = 0;
  int drafted = 0;
  for (PlanRequest request : deployments(20, 250)) {
    request.tokens_per_block = Tokens{64};
    request.parallelism.decode_context = 1;
    PlanRequest wider = request;
    wider.parallelism.tensor *= 2;
    INFO(text_of(request));
    const auto narrow_need = least_kv_budget(request, test::known());
    const auto wide_need = least_kv_budget(wider, test::known());
    REQUIRE(narrow_need.has_value());
    REQUIRE(wide_need.has_value());
    if (!narrow_need->has_value() || !wide_need->has_value()) {
      continue;  // heads of a state that the ranks do not divide
    }
    if (!request.drafter.has_value()) {
      CHECK((*wide_need)->count() <= (*narrow_need)->count());
      less += **wide_need < **narrow_need ? 1 : 0;
    }
    request.budget.kv_budget = 4 * **narrow_need;
    wider.budget.kv_budget = 4 * **wide_need;
    const auto narrow = make_plan(request, test::known());
    const auto wide = make_plan(wider, test::known());
    REQUIRE((narrow.has_value() && wide.has_value()));
    for (const std::int64_t length : {1, 100, 1'000, 10'000}) {
      CHECK(held_by_all(*wide, Tokens{length}) <= held_by_all(*narrow, Tokens{length}));
    }
    drafted += request.drafter.has_value() ? 1 : 0;
  }
  CHECK(less >= 20);
  CHECK(drafted >= 50);
}

TEST_CASE("a longer sequence and one sequence more never need less", "[solve]") {
  for (PlanRequest request : deployments(21, 150)) {
    INFO(text_of(request));
    request.drafter.reset();
    request.workload.max_num_seqs = request.workload.max_num_seqs.value_or(Sequences{1});
    Dice dice{static_cast<std::uint64_t>(request.budget.kv_budget->count())};
    std::int64_t before = -1;
    for (int step = 0; step < 8; ++step) {
      const auto need = least_kv_budget(request, test::known());
      REQUIRE(need.has_value());
      if (!need->has_value()) {
        break;
      }
      CHECK((*need)->count() >= before);
      before = (*need)->count();
      if (step % 2 == 0) {
        *request.workload.max_model_len += Tokens{1 + dice.below(200)};
      } else {
        *request.workload.max_num_seqs += Sequences{1};
      }
    }
  }
}

/// Longest window or chunk of a model.
std::int64_t longest_window(const ModelConfig& model) {
  std::int64_t longest = 0;
  for (const ModelLayer& layer : model.layers) {
    for (const LayerCache& cache : layer.caches) {
      if (const auto* attention = std::get_if<AttentionCache>(&cache)) {
        longest = std::max(longest, attention->span.extent.count());
      }
    }
  }
  return longest;
}

// What the split takes for fixed does not change with length once windows are full, so that the
// least budget of target and draft together is monotone there. With one sequence more it may go
// down, by less than what the shares are cut to.
TEST_CASE("beside a drafter a longer sequence never needs less, one more hardly", "[solve]") {
  int drafted = 0;
  int lower = 0;
  for (PlanRequest request : deployments(23, 150)) {
    if (!request.drafter.has_value()) {
      continue;
    }
    INFO(text_of(request));
    request.workload.max_num_seqs = request.workload.max_num_seqs.value_or(Sequences{1});
    std::int64_t windows = longest_window(request.target);
    if (request.drafter->model.has_value()) {
      windows = std::max(windows, longest_window(*request.drafter->model));
    }
    // Behind a window lie the tokens of a step, pages at both ends, and draft tokens.
    constexpr std::int64_t kBehind = 8192 + 2 * 256 + 1024;
    request.workload.max_model_len =
        Tokens{(windows + kBehind) * request.parallelism.decode_context};
    Dice dice{static_cast<std::uint64_t>(request.budget.kv_budget->count())};
    std::int64_t before = -1;
    for (int step = 0; step < 12; ++step) {
      const auto need = least_kv_budget(request, test::known());
      REQUIRE(need.has_value());
      if (!need->has_value()) {
        break;
      }
      std::int64_t cut = 0;
      if (step % 4 == 3) {  // the step before added a sequence
        PlanRequest roomy = request;
        roomy.budget.kv_budget = 2 * **need;
        const auto plan = make_plan(roomy, test::known());
        REQUIRE(plan.has_value());
        for (const PoolPlan& rank : plan->ranks) {
          for (const PoolDescriptor& pool : rank.pools) {
            cut += (pool.slab_bytes + pool.granularity).count();
          }
        }
      }
      CHECK((*need)->count() >= before - cut);
      lower += (*need)->count() < before ? 1 : 0;
      before = (*need)->count();
      if (step % 4 == 2) {
        *request.workload.max_num_seqs += Sequences{1};
      } else {
        *request.workload.max_model_len += Tokens{1 + dice.below(200)};
      }
    }
    ++drafted;
  }
  CHECK(drafted >= 40);
  CHECK(lower < drafted);
}

TEST_CASE("what a sequence holds never shrinks with its length, in any pool", "[solve]") {
  for (PlanRequest request : deployments(22, 150)) {
    INFO(text_of(request));
    request.budget.kv_budget = Bytes{std::int64_t{1} << 40};
    request.workload.max_model_len = Tokens{100'000};
    const auto plan = make_plan(request, test::known());
    if (!plan.has_value() || plan->ranks.empty()) {
      continue;
    }
    for (const PoolPlan& rank : plan->ranks) {
      for (const PoolDescriptor& pool : rank.pools) {
        Bytes before;
        for (std::int64_t length = 0; length < 3'000; length += 37) {
          const SequenceUse use = sequence_use(*plan, pool, Tokens{length});
          CHECK(use.held >= before);
          CHECK(use.used <= use.held);
          before = use.held;
        }
      }
    }
  }
}

}  // namespace kvpool
