// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What answers say besides their number; that the number is right on both sides is tested in
// tests/property/solve_inverts_plan_test.cpp.
#include <kvpool/solve/solver.hpp>

#include <kvpool/io/model_config_io.hpp>
#include <kvpool/plan/planner.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace kvpool {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

const CapabilityRegistry& known() {
  static const CapabilityRegistry registry = CapabilityRegistry::with_known_kernels();
  return registry;
}

ModelConfig config(const std::string& name) {
  return io::read_model_config(std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs/" + name +
                               ".json")
      .value();
}

/// Llama-3.1-8B: 32 layers x 8 KV heads x 128 elements, K and V: 131,072 bytes a token in bf16.
PlanRequest llama(std::int64_t budget) {
  PlanRequest request;
  request.target = config("llama-3.1-8b");
  request.budget.kv_budget = Bytes{budget};
  request.tokens_per_block = Tokens{64};
  return request;
}

const Relief* find_relief(const Answer& answer, const std::string& change) {
  const auto found = std::ranges::find_if(answer.reliefs, [&change](const Relief& relief) {
    return relief.change.starts_with(change);
  });
  return found == answer.reliefs.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("the longest sequence is counted in whole pages of the budget") {
  // A page takes 8 MiB; 1 GiB holds 128, one of them reserved.
  const Answer answer = solve_max_model_len(llama(kGiB), known()).value();
  CHECK(answer.value == 127 * 64);
  CHECK(answer.unit == "tokens");
  CHECK(answer.options == "--max-model-len 8128");
  CHECK(answer.binding.id == "does_not_fit");
  CHECK(answer.binding.missing == Bytes{64 * 131'072});
  CHECK(answer.binding.pool == "target");
  // fp8 halves the bytes: 255 pages.
  REQUIRE(find_relief(answer, "--kv-cache-dtype fp8") != nullptr);
  CHECK(find_relief(answer, "--kv-cache-dtype fp8")->value == 255 * 64);
  REQUIRE(find_relief(answer, "--tp 2") != nullptr);
  CHECK(find_relief(answer, "--tp 2")->gpus == 2);
  // Settings and formats come before GPUs.
  CHECK(answer.reliefs.front().change == "--kv-cache-dtype fp8");
  CHECK(answer.reliefs.back().gpus > 1);
}

TEST_CASE("positions of the config bind before memory does") {
  const Answer answer = solve_max_model_len(llama(60 * kGiB), known()).value();
  CHECK(answer.value == 131'072);
  CHECK(answer.binding.id == "max_position_embeddings");
  CHECK(answer.find_figure("memory_alone")->value == (60 * 128 - 1) * 64);
  CHECK(answer.reliefs.empty());
}

TEST_CASE("nothing fits: the answer says so and what would help") {
  // The reserved page and one more do not fit into 12 MiB.
  PlanRequest request = llama(12 << 20);
  const Answer answer = solve_max_model_len(request, known()).value();
  CHECK_FALSE(answer.found);
  CHECK(answer.value == 0);
  CHECK(answer.binding.missing.count() > 0);
  REQUIRE(find_relief(answer, "--kv-cache-dtype fp8") != nullptr);
  CHECK(find_relief(answer, "--kv-cache-dtype fp8")->value == 128);
}

TEST_CASE("a refusal that bytes do not cure is named") {
  PlanRequest request = llama(kGiB);
  request.kv_dtype = KvDtype::kFp8DsMla;
  const Answer answer = solve_max_num_seqs(request, known()).value();
  CHECK_FALSE(answer.found);
  CHECK(answer.binding.id == "kv_cache_dtype");
  CHECK(answer.binding.missing == Bytes{0});
}

TEST_CASE("the most sequences of a length and of a mix") {
  PlanRequest request = llama(kGiB);
  request.workload.max_model_len = Tokens{1024};  // 16 pages
  CHECK(solve_max_num_seqs(request, known())->value == 127 / 16);
  // Half of them a page, half of them 16: 7 x 16 + 7 x 1 = 119, and 8 x 16 is more than 127.
  const LengthMix mix = parse_percentiles("p50=64,max=1024", Tokens{1024}).value();
  const Answer answer = solve_max_num_seqs(request, known(), mix).value();
  CHECK(answer.value == 14);
  CHECK(answer.binding.id == "does_not_fit");
  CHECK(answer.binding.pool == "target");
  const LengthMix longer = parse_percentiles("max=2048", Tokens{2048}).value();
  CHECK_FALSE(solve_max_num_seqs(request, known(), longer).has_value());
}

TEST_CASE("the fewest GPUs deal sequences out over replicas") {
  PlanRequest request = llama(kGiB);
  request.workload.max_model_len = Tokens{1024};
  request.workload.max_num_seqs = Sequences{14};
  // One GPU holds 7; two replicas or two ranks hold 14.
  const Answer answer = solve_gpus(request, known(), {}).value();
  CHECK(answer.value == 2);
  CHECK(answer.find_figure("pipeline")->value == 1);
  CHECK(make_plan(answer.request, known())->fits);
  CHECK(answer.beyond->parallelism.tensor * answer.beyond->parallelism.data == 1);
  // 28 query heads: no tensor parallel size of 8.
  request.target = config("qwen2.5-7b");
  request.workload.max_num_seqs = Sequences{200};
  const Answer other = solve_gpus(request, known(), {}).value();
  for (const Candidate& candidate : other.candidates) {
    CHECK(candidate.name.find("--tp 8") == std::string::npos);
  }
}

TEST_CASE("the share of a GPU has two ends") {
  PlanRequest request = llama(0);
  request.budget.kv_budget.reset();
  request.budget.gpu_memory = Bytes{80 * kGiB};
  request.budget.weights = Bytes{16 * kGiB};
  request.workload.max_model_len = Tokens{32'768};
  const Answer assumed = solve_gpu_memory_utilization(request, known()).value();
  REQUIRE(assumed.found);
  const std::int64_t largest = assumed.find_figure("largest")->value;
  CHECK(assumed.value < largest);
  CHECK(largest < 1'000'000);
  // With every line given, all of the GPU may be used.
  request.budget.overhead = Bytes{4 * kGiB};
  const Answer exact = solve_gpu_memory_utilization(request, known()).value();
  CHECK(exact.find_figure("largest")->value == 1'000'000);
  // 32,768 tokens take 4 GiB and a reserved page of 8 MiB, above 20 GiB of the rest.
  const std::int64_t needed = 24 * kGiB + (8 << 20);
  CHECK(exact.value == (needed * 1'000'000 + 80 * kGiB - 1) / (80 * kGiB));
  request.budget.kv_budget = Bytes{kGiB};
  CHECK_FALSE(solve_gpu_memory_utilization(request, known()).has_value());
}

TEST_CASE("the cache format that is needed is the widest that fits") {
  PlanRequest request = llama(kGiB);
  request.workload.max_model_len = Tokens{8192};  // 128 pages, and 127 are there
  const Answer answer = solve_kv_cache_dtype(request, known()).value();
  REQUIRE(answer.found);
  // 8 bits with a scale per token and head need more than plain 8 bits, and fit, too.
  CHECK(answer.request.kv_dtype == KvDtype::kFp8E4m3PerTokenHead);
  CHECK(answer.candidates.front().name == "bf16");
  CHECK_FALSE(answer.candidates.front().fits);
  CHECK(answer.beyond->kv_dtype == KvDtype::kBf16);
  request.workload.max_model_len = Tokens{4096};
  CHECK(solve_kv_cache_dtype(request, known())->options == "--kv-cache-dtype bf16");
}

TEST_CASE("the page with the least waste keeps every kernel") {
  PlanRequest request = llama(kGiB);
  request.workload.max_model_len = Tokens{2048};
  const std::vector<Tokens> lengths{Tokens{16}, Tokens{48}, Tokens{80}};
  const Answer answer = solve_page_size(request, known(), mix_of_sample(lengths).value()).value();
  // Pages of 8 and of 16 tokens waste nothing here: the larger of equals.
  CHECK(answer.value == 16);
  CHECK(answer.find_figure("waste_bytes")->value == 0);
  CHECK(answer.candidates.size() == 6);
}

TEST_CASE("the largest of several drafters is the one with the most bytes that fits") {
  PlanRequest request = llama(4 * kGiB);
  request.workload.max_model_len = Tokens{16'384};
  const ModelConfig small = config("eagle3-llama-8b");
  ModelConfig large = config("dflash-5-full");
  const std::vector<DrafterChoice> choices{
      {.name = "large", .drafter = {.kind = DrafterKind::kDflash, .model = large}},
      {.name = "small", .drafter = {.kind = DrafterKind::kEagle3, .model = small}}};
  const Answer answer = solve_drafter(request, known(), choices).value();
  REQUIRE(answer.found);
  CHECK(answer.options == "--drafter large");
  request.budget.kv_budget = Bytes{2 * kGiB + (160 << 20)};
  const Answer tight = solve_drafter(request, known(), choices).value();
  REQUIRE(tight.found);
  CHECK(tight.options == "--drafter small");
  CHECK(tight.binding.id == "does_not_fit");
  CHECK(tight.beyond->drafter->kind == DrafterKind::kDflash);
}

TEST_CASE("questions about a drafter need one") {
  CHECK_FALSE(solve_drafter_layers(llama(kGiB), known()).has_value());
  CHECK_FALSE(solve_num_draft_tokens(llama(kGiB), known()).has_value());
  PlanRequest request = llama(kGiB);
  request.drafter = DrafterRequest{.kind = DrafterKind::kNgram};
  CHECK_FALSE(solve_drafter_layers(request, known()).has_value());
}

TEST_CASE("names of questions are those of the options") {
  std::vector<std::string> names;
  for (const Question question : all_questions()) {
    names.emplace_back(to_string(question));
  }
  CHECK(names == std::vector<std::string>{"max_model_len", "max_num_seqs", "gpus",
                                          "gpu_memory_utilization", "kv_cache_dtype", "page_size",
                                          "drafter", "num_draft_tokens"});
}

}  // namespace kvpool
