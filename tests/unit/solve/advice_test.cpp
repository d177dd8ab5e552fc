// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/solve/advice.hpp>

#include <kvpool/io/model_config_io.hpp>
#include <kvpool/plan/planner.hpp>
#include <kvpool/solve/solver.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace kvpool {
namespace {

const CapabilityRegistry& known() {
  static const CapabilityRegistry registry = CapabilityRegistry::with_known_kernels();
  return registry;
}

PlanRequest request_for(const std::string& name) {
  PlanRequest request;
  request.target = io::read_model_config(std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs/" +
                                         name + ".json")
                       .value();
  request.budget.kv_budget = Bytes{std::int64_t{60} << 30};
  request.workload.max_model_len = Tokens{8192};
  request.workload.max_num_seqs = Sequences{16};
  return request;
}

std::vector<Advice> advice_on(const PlanRequest& request, const LengthMix* mix = nullptr) {
  return advise(make_plan(request, known()).value(), known(), mix);
}

const Advice* find(const std::vector<Advice>& advice, const std::string& id) {
  const auto found = std::ranges::find(advice, id, &Advice::id);
  return found == advice.end() ? nullptr : &*found;
}

/// What a change frees, asked of the planner apart from the advice.
Bytes freed(const PlanRequest& before, const PlanRequest& after) {
  return **least_kv_budget(before, known()) - **least_kv_budget(after, known());
}

}  // namespace

TEST_CASE("a latent on several ranks is advised to be spread") {
  PlanRequest request = request_for("deepseek-v3");
  request.parallelism.tensor = 8;
  const auto advice = advice_on(request);
  const Advice* found = find(advice, "latent_replicated");
  REQUIRE(found != nullptr);
  PlanRequest spread = request;
  if (found->change == "--dcp 8") {
    spread.parallelism.decode_context = 8;
  } else {
    REQUIRE(found->change == "--attention-dp --max-num-seqs 2");
    spread.parallelism.attention_data_parallel = true;
    spread.workload.max_num_seqs = Sequences{2};
  }
  CHECK(found->frees == freed(request, spread));
  CHECK(found->frees.count() > 0);
  CHECK(find(advice_on(spread), "latent_replicated") == nullptr);

  request.parallelism.tensor = 1;
  CHECK(find(advice_on(request), "latent_replicated") == nullptr);
}

TEST_CASE("the weights that attention data parallelism adds are taken off what it frees") {
  PlanRequest request = request_for("deepseek-v3");
  request.parallelism.tensor = 8;
  request.workload.max_model_len = Tokens{65'536};
  PlanRequest apart = request;
  apart.parallelism.attention_data_parallel = true;
  apart.workload.max_num_seqs = Sequences{2};
  // The ledger starts below the weights here; they are the same with all of a GPU's memory.
  const auto weights = [](PlanRequest of) {
    of.budget = {};
    of.budget.gpu_memory = Bytes{std::int64_t{1000} << 30};
    return make_plan(of, known())->find_line("weights")->bytes;
  };
  const Bytes added = weights(apart) - weights(request);
  REQUIRE(added.count() > 0);
  const auto advice = advice_on(request);
  const auto found = std::ranges::find_if(
      advice, [](const Advice& item) { return item.change == "--attention-dp --max-num-seqs 2"; });
  REQUIRE(found != advice.end());
  CHECK(found->frees == freed(request, apart) - added);
}

TEST_CASE("more ranks than KV heads hold each head more than once") {
  PlanRequest request = request_for("llama-3.1-8b");  // 8 KV heads
  request.parallelism.tensor = 32;
  const auto advice = advice_on(request);
  const Advice* found = find(advice, "kv_heads_replicated");
  REQUIRE(found != nullptr);
  CHECK(found->what.find("held 4 times") != std::string::npos);
  CHECK(found->frees.count() > 0);
  request.parallelism.tensor = 8;
  CHECK(find(advice_on(request), "kv_heads_replicated") == nullptr);
  // A latent has no heads at all.
  PlanRequest latent = request_for("deepseek-v3");
  latent.parallelism.tensor = 32;
  CHECK(find(advice_on(latent), "kv_heads_replicated") == nullptr);
}

TEST_CASE("an 8-bit cache gains little where state dominates") {
  PlanRequest request = request_for("nemotron-3-super");
  request.workload.max_model_len = Tokens{2048};
  request.kv_dtype = KvDtype::kBf16;
  const auto advice = advice_on(request);
  const Advice* found = find(advice, "fp8_gains_little");
  REQUIRE(found != nullptr);
  CHECK(found->change == "--kv-cache-dtype fp8");
  PlanRequest smaller = request;
  smaller.kv_dtype = KvDtype::kFp8E4m3;
  CHECK(found->frees == freed(request, smaller));
  // The other way round it costs what the other frees.
  const Advice* back = nullptr;
  const auto other = advice_on(smaller);
  back = find(other, "fp8_gains_little");
  REQUIRE(back != nullptr);
  CHECK(back->frees == Bytes{0} - found->frees);
  // Long sequences: the pages weigh more than the state.
  request.workload.max_model_len = Tokens{1'000'000};
  request.workload.max_num_seqs = Sequences{1};
  CHECK(find(advice_on(request), "fp8_gains_little") == nullptr);
  CHECK(find(advice_on(request_for("llama-3.1-8b")), "fp8_gains_little") == nullptr);
}

TEST_CASE("a pool that is smaller than the longest request says how far requests can go") {
  PlanRequest request = request_for("llama-3.1-8b");
  request.budget.kv_budget = Bytes{std::int64_t{1} << 30};
  request.workload.max_model_len = Tokens{100'000};
  const auto advice = advice_on(request);
  const Advice* found = find(advice, "longest_request");
  REQUIRE(found != nullptr);
  REQUIRE(found->change.starts_with("--max-model-len "));
  PlanRequest one = request;
  one.workload.max_num_seqs = Sequences{1};
  one.workload.max_model_len = Tokens{std::stoll(found->change.substr(16))};
  CHECK(make_plan(one, known())->fits);
  *one.workload.max_model_len += Tokens{1};
  CHECK_FALSE(make_plan(one, known())->fits);
  // One request fits, sixteen do not: that is no matter of the longest one.
  request.budget.kv_budget = Bytes{std::int64_t{16} << 30};
  REQUIRE_FALSE(make_plan(request, known())->fits);
  CHECK(find(advice_on(request), "longest_request") == nullptr);
}

TEST_CASE("a drafter whose kernel is lost is told the page or the tokens that keep it") {
  PlanRequest request = request_for("kimi-k3");
  request.parallelism.tensor = 16;
  request.device = find_device("gb200");
  request.workload.max_num_seqs = Sequences{4};
  request.drafter =
      DrafterRequest{.kind = DrafterKind::kDspark,
                     .model = io::read_model_config(std::string{KVPOOL_SOURCE_DIR} +
                                                    "/tests/data/configs/dspark-k3-96x16.json")
                                  .value()};
  CHECK(find(advice_on(request), "fast_path_lost") == nullptr);
  request.drafter->tokens_per_block = Tokens{32};
  auto advice = advice_on(request);
  const Advice* found = find(advice, "fast_path_lost");
  REQUIRE(found != nullptr);
  CHECK(found->change == "--draft-page-size 64");
  CHECK(found->what.find("k3_drafter_attn_qknorm") != std::string::npos);
  CHECK(found->what.find("306 us_per_step") != std::string::npos);

  request.drafter->tokens_per_block.reset();
  request.drafter->num_draft_tokens = Tokens{9};  // its kernels take up to 8
  advice = advice_on(request);
  found = find(advice, "fast_path_lost");
  REQUIRE(found != nullptr);
  CHECK(found->change == "--num-draft-tokens 8");
}

TEST_CASE("large pages waste memory and prefixes of short sequences") {
  PlanRequest request = request_for("llama-3.1-8b");
  request.tokens_per_block = Tokens{256};
  const std::vector<Tokens> lengths{Tokens{40}, Tokens{300}, Tokens{700}};
  const LengthMix mix = mix_of_sample(lengths).value();
  const auto advice = advice_on(request, &mix);
  const Advice* waste = find(advice, "page_waste");
  REQUIRE(waste != nullptr);
  // 8 layers' worth of nothing lost: 256-token pages hold 256 + 512 + 768, 8-token ones 40 + 304 +
  // 704; a token of this model takes 128 KiB, and the average is over three sequences.
  CHECK(waste->change == "--page-size 8");
  constexpr std::int64_t kToken = 131'072;
  CHECK(waste->frees == Bytes{((1536 * kToken + 2) / 3 - (1048 * kToken + 2) / 3) * 16});
  const Advice* prefix = find(advice, "prefix_granularity");
  REQUIRE(prefix != nullptr);
  // 0 + 256 + 512 of 1040 tokens, one sequence in three shorter than a page.
  CHECK(prefix->what.find("73.8 %") != std::string::npos);
  CHECK(prefix->what.find("33.3 %") != std::string::npos);
  // Without a mix nothing is known of lengths.
  CHECK(find(advice_on(request), "page_waste") == nullptr);
  CHECK(find(advice_on(request), "prefix_granularity") == nullptr);
}

TEST_CASE("a plan that is refused gets no advice, and a good one none either") {
  PlanRequest request = request_for("llama-3.1-8b");
  CHECK(advice_on(request).empty());
  request.kv_dtype = KvDtype::kFp4Mla;
  CHECK(advice_on(request).empty());
}

TEST_CASE("advice is sorted by what it frees") {
  PlanRequest request = request_for("deepseek-v3");
  request.parallelism.tensor = 8;
  request.tokens_per_block = Tokens{256};
  request.workload.max_model_len = Tokens{600};
  const std::vector<Tokens> lengths{Tokens{10}, Tokens{20}, Tokens{600}};
  const LengthMix mix = mix_of_sample(lengths).value();
  const auto advice = advice_on(request, &mix);
  CHECK(advice.size() >= 2);
  CHECK(std::ranges::is_sorted(advice, std::ranges::greater{}, &Advice::frees));
}

}  // namespace kvpool
