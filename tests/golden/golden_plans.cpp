// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "golden_plans.hpp"

#include <kvpool/io/model_config_io.hpp>
#include <kvpool/io/plan_document.hpp>
#include <kvpool/plan/planner.hpp>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>

namespace kvpool::golden {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

[[noreturn]] void give_up(const std::string& what) {
  std::cerr << what << '\n';
  std::exit(2);
}

ModelConfig config(const std::string& name) {
  const std::string file = name + ".json";
  const std::string folder = std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs/";
  // Under its own name and not its path, which is another one on every machine.
  auto model = io::parse_model_config(read_file(folder + file), file);
  if (!model) {
    give_up(file + ": " + model.error().message);
  }
  return *std::move(model);
}

PlanRequest request_for(const std::string& target, std::int64_t tp, std::int64_t budget,
                        std::int64_t length, std::int64_t sequences) {
  PlanRequest request;
  request.target = config(target);
  request.parallelism.tensor = tp;
  request.budget.kv_budget = Bytes{budget};
  request.workload.max_model_len = Tokens{length};
  request.workload.max_num_seqs = Sequences{sequences};
  return request;
}

PlanRequest with_drafter(PlanRequest request, DrafterKind kind, const std::string& drafter) {
  request.drafter = DrafterRequest{.kind = kind};
  if (!drafter.empty()) {
    request.drafter->model = config(drafter);
  }
  return request;
}

std::vector<std::pair<std::string, PlanRequest>> requests() {
  std::vector<std::pair<std::string, PlanRequest>> all;

  PlanRequest k3 = with_drafter(request_for("kimi-k3", 16, 60 * kGiB, 262'144, 4),
                                DrafterKind::kDspark, "dspark-k3-96x16");
  k3.device = find_device("gb200");
  all.emplace_back("kimi_k3_dspark_tp16", k3);
  // What a draft page of 32 tokens loses.
  k3.drafter->tokens_per_block = Tokens{32};
  all.emplace_back("kimi_k3_dspark_tp16_page_32", k3);
  // From the GPU's memory, with estimated weights.
  k3.drafter->tokens_per_block.reset();
  k3.budget.kv_budget.reset();
  all.emplace_back("kimi_k3_dspark_tp16_from_gpu", k3);
  k3.kv_dtype = KvDtype::kFp4Mla;
  all.emplace_back("kimi_k3_fp4_mla_refused", k3);

  PlanRequest deepseek =
      with_drafter(request_for("deepseek-v3", 8, 40 * kGiB, 65'536, 8), DrafterKind::kMtp, "");
  deepseek.device = find_device("h200");
  all.emplace_back("deepseek_v3_mtp", deepseek);
  deepseek.parallelism.pipeline = 2;
  deepseek.kv_dtype = KvDtype::kFp4Mla;
  deepseek.device = find_device("b200");
  all.emplace_back("deepseek_v3_mtp_fp4_pp2", deepseek);

  PlanRequest gemma = with_drafter(request_for("gemma-3-27b", 2, 20 * kGiB, 16'384, 4),
                                   DrafterKind::kDflash, "dflash-4-sliding-1-full");
  all.emplace_back("gemma_3_shared_slabs", gemma);
  gemma.layout = {.pages = PageOrder::kLayerMajor, .rows = RowOrder::kNhd};
  all.emplace_back("gemma_3_separate_pools", gemma);

  all.emplace_back(
      "qwen3_5_hybrid",
      with_drafter(request_for("qwen3.5-27b", 4, 30 * kGiB, 131'072, 16), DrafterKind::kMtp, ""));
  all.emplace_back("gpt_oss_does_not_fit", request_for("gpt-oss-120b", 1, 4 * kGiB, 131'072, 8));
  return all;
}

}  // namespace

std::vector<GoldenPlan> make_plans() {
  const auto registry = CapabilityRegistry::with_known_kernels();
  std::vector<GoldenPlan> plans;
  for (const auto& [name, request] : requests()) {
    const auto plan = make_plan(request, registry);
    if (!plan) {
      give_up(name + ": " + plan.error().message);
    }
    plans.push_back({.name = name, .json = io::plan_to_json(*plan)});
  }
  return plans;
}

std::string path_of(const std::string& name) {
  return std::string{KVPOOL_SOURCE_DIR} + "/tests/golden/plans/" + name + ".json";
}

std::string read_file(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
}

}  // namespace kvpool::golden
