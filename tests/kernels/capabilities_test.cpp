// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/capabilities.hpp>

#include <kvpool/plan/planner.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::kernels {
namespace {

using Catch::Matchers::ContainsSubstring;

const KernelCapability& row_named(const std::string& name) {
  const auto rows = bundled_kernels();
  const auto found = std::ranges::find(rows, name, &KernelCapability::name);
  REQUIRE(found != rows.end());
  return *found;
}

/// A GQA model, and a DSpark drafter of another shape.
PlanRequest request() {
  const auto model = [](std::int64_t query_heads, std::int64_t kv_heads, std::int64_t dim) {
    ModelConfig config;
    for (std::int32_t i = 0; i < 4; ++i) {
      ModelLayer layer;
      layer.index = LayerIndex{i};
      layer.caches = {AttentionCache{.query_heads = Heads{query_heads},
                                     .kv_heads = Heads{kv_heads},
                                     .key_dim = dim,
                                     .value_dim = dim}};
      config.layers.push_back(layer);
    }
    config.native_dtype = KvDtype::kBf16;
    config.max_positions = Tokens{8'192};
    return config;
  };
  PlanRequest request;
  request.target = model(32, 8, 128);
  request.drafter.emplace();
  request.drafter->kind = DrafterKind::kDspark;
  request.drafter->num_draft_tokens = Tokens{7};
  request.drafter->model = model(16, 2, 64);
  request.budget.kv_budget = Bytes{1 << 30};
  request.kernel_set = KernelSet::kKvpool;
  return request;
}

Plan plan_of(const PlanRequest& request, const CapabilityRegistry& registry) {
  const auto plan = make_plan(request, registry);
  REQUIRE(plan.has_value());
  return *plan;
}

const LedgerLine& workspaces(const Plan& plan) {
  REQUIRE(plan.find_line("workspaces") != nullptr);
  return *plan.find_line("workspaces");
}

/// The bundled rows without workspaces, but for the first of a role.
CapabilityRegistry registry_where(KernelRole role, Bytes (*workspace)(const WorkspaceShape&)) {
  CapabilityRegistry registry;
  bool changed = false;
  for (KernelCapability row : bundled_kernels()) {
    row.workspace = [](const WorkspaceShape& /*shape*/) { return Bytes{0}; };
    if (row.role == role && !changed) {
      row.workspace = workspace;
      changed = true;
    }
    REQUIRE(registry.add(std::move(row)).has_value());
  }
  return registry;
}

TEST_CASE("the bundled rows", "[kernels]") {
  std::vector<std::string> names;
  for (const KernelCapability& row : bundled_kernels()) {
    names.push_back(row.name);
    CHECK(row.kernel_set == "kvpool");
    CHECK(row.evidence == Evidence::kTestedHere);
    // What CMAKE_CUDA_ARCHITECTURES is by default.
    CHECK(row.limits.architectures == std::vector<std::string>{"sm_90"});
    REQUIRE(row.workspace != nullptr);
    if (row.name.starts_with("kvpool_packed_")) {
      continue;
    }
    CHECK(row.necessity == Necessity::kRequired);
    CHECK(row.workspace({.batch = 1, .query_tokens = 1, .query_heads = 1, .value_dim = 64}) ==
          Bytes{0});
    CHECK(row.limits.kv_dtypes == std::vector{KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp32});
    CHECK(row.limits.head_dims.size() == 72);
    CHECK(row.limits.head_dims.front() == 8);
    CHECK(row.limits.head_dims.back() == 576);
    for (const std::int64_t page : {1, 16, 32, 64, 128, 4'096}) {
      CHECK(row.page_sizes.accepts(Tokens{page}));
    }
  }
  CHECK(names == std::vector<std::string>{"kvpool_append", "kvpool_simple_decode",
                                          "kvpool_simple_prefill", "kvpool_simple_block",
                                          "kvpool_packed_decode", "kvpool_packed_block"});
  CHECK(row_named("kvpool_append").serves.size() == 7);
  CHECK(row_named("kvpool_simple_block").role == KernelRole::kDraftBlock);
  CHECK(registry_with_bundled_kernels().rows().size() ==
        known_kernels().size() + bundled_kernels().size());
}

TEST_CASE("the rows of packed attention are preferred, with what losing them costs", "[kernels]") {
  for (const char* const name : {"kvpool_packed_decode", "kvpool_packed_block"}) {
    const KernelCapability& row = row_named(name);
    CHECK(row.necessity == Necessity::kPreferred);
    CHECK(row.cost_of_loss.unit == "us_per_layer");
    CHECK(row.cost_of_loss.value > 0);
    CHECK_THAT(row.cost_of_loss.conditions, ContainsSubstring("H200, batch "));
    CHECK(row.limits.family == AttentionFamily::kKeyValue);
    CHECK(row.limits.kv_dtypes == std::vector{KvDtype::kBf16, KvDtype::kFp16});
    CHECK(row.limits.head_dims == std::vector<std::int64_t>{64, 128});
    CHECK(row.limits.masks.size() == 3);
    for (const std::int64_t page : {16, 32, 48, 64, 128, 4'096}) {
      CHECK(row.page_sizes.accepts(Tokens{page}));
    }
    for (const std::int64_t page : {1, 8, 24, 100}) {
      CHECK_FALSE(row.page_sizes.accepts(Tokens{page}));
    }
    // A latent cache of any size is none of theirs, and takes no memory.
    CHECK(row.workspace({.batch = 1,
                         .query_tokens = 1,
                         .query_heads = 16,
                         .kv_heads = 1,
                         .key_dim = 576,
                         .value_dim = 512,
                         .multiprocessors = 132}) == Bytes{0});
  }
  CHECK(row_named("kvpool_packed_decode").role == KernelRole::kTargetDecode);
  CHECK(row_named("kvpool_packed_block").role == KernelRole::kDraftBlock);
}

TEST_CASE("a page that packed attention does not take is kept, and its loss told", "[kernels]") {
  PlanRequest asked = request();
  asked.device = find_device("h200");
  asked.tokens_per_block = Tokens{24};
  const Plan plan = plan_of(asked, registry_with_bundled_kernels());
  CHECK(plan.refusals.empty());
  CHECK(plan.resolution.target_page == Tokens{24});
  const Decision* const lost = plan.find_decision("preferred_kernel_lost");
  REQUIRE(lost != nullptr);
  CHECK(lost->cost.unit == "us_per_layer");
  asked.tokens_per_block = Tokens{32};
  CHECK(plan_of(asked, registry_with_bundled_kernels()).find_decision("preferred_kernel_lost") ==
        nullptr);
}

TEST_CASE("the kernel set kvpool keeps every target page, and the draft pool follows",
          "[kernels]") {
  const auto page = GENERATE(16, 32, 64, 128);
  PlanRequest asked = request();
  asked.tokens_per_block = Tokens{page};
  const Plan plan = plan_of(asked, registry_with_bundled_kernels());
  CHECK(plan.fits);
  CHECK(plan.refusals.empty());
  CHECK(plan.resolution.target_page == Tokens{page});
  CHECK(plan.resolution.draft_page == Tokens{page});
  REQUIRE(plan.find_decision("kernel_set") != nullptr);
  CHECK(plan.find_decision("kernel_set")->chosen == "kvpool");
  // 8 query tokens of 4 heads are 32 rows. Of 264 blocks, two results of 32 x (128 + 4) words each:
  // 8,921,088 bytes, and four plans of 48 + 264 x 64 + 32 bytes, in whole granules of 2 MiB.
  CHECK(plan.resolution.workspace == Bytes{8'921'088 + 4 * 17'152});
  CHECK(workspaces(plan).bytes == Bytes{10'485'760});
  CHECK(workspaces(plan).reason ==
        "shared by the bundled kernels, for the largest shape, in whole granules");
}

TEST_CASE("a GPU that nothing is compiled for is refused, one that is not stated is a condition",
          "[kernels]") {
  const auto registry = registry_with_bundled_kernels();
  PlanRequest asked = request();
  REQUIRE(plan_of(asked, registry).find_decision("kernel_set") != nullptr);
  CHECK(plan_of(asked, registry).find_decision("kernel_set")->reason ==
        "asked for: the bundled kernels' rows decide, if the GPU is sm_90");
  for (const auto& [gpu, architecture] :
       {std::pair{"a100-80", "sm_80"}, std::pair{"b200", "sm_100"}}) {
    asked.device = find_device(gpu);
    REQUIRE(asked.device.has_value());
    const Plan plan = plan_of(asked, registry);
    CHECK_FALSE(plan.fits);
    CHECK(plan.ranks.empty());
    REQUIRE_FALSE(plan.refusals.empty());
    CHECK(plan.refusals.front().id == "kernel_set");
    CHECK_THAT(plan.refusals.front().what,
               ContainsSubstring(std::string{"kvpool_simple_decode needs sm_90, this is "} +
                                 architecture + "; kvpool_packed_decode needs sm_90, this is " +
                                 architecture + "; kvpool_append needs sm_90, this is "));
  }
  asked.device = find_device("h200");
  CHECK(plan_of(asked, registry).refusals.empty());
  CHECK(plan_of(asked, registry).find_decision("kernel_set")->reason ==
        "asked for: the bundled kernels' rows decide");
}

TEST_CASE("the default page of the kernel set kvpool is 64", "[kernels]") {
  CHECK(plan_of(request(), registry_with_bundled_kernels()).resolution.target_page == Tokens{64});
}

TEST_CASE("a format that no bundled kernel reads is refused", "[kernels]") {
  PlanRequest asked = request();
  asked.kv_dtype = KvDtype::kFp8E4m3;
  const Plan plan = plan_of(asked, registry_with_bundled_kernels());
  CHECK_FALSE(plan.fits);
  REQUIRE_FALSE(plan.refusals.empty());
  CHECK(plan.refusals.front().id == "kernel_set");
  CHECK(plan.refusals.front().what ==
        "the kernel set kvpool has no row for target_decode and append of target: "
        "kvpool_simple_decode needs a bf16, fp16 or fp32 cache, this is fp8_e4m3; "
        "kvpool_packed_decode needs a bf16 or fp16 cache, this is fp8_e4m3; kvpool_append "
        "needs a bf16, fp16 or fp32 cache, this is fp8_e4m3");
}

TEST_CASE("a workspace is charged to the budget, for the largest shape", "[kernels]") {
  PlanRequest asked = request();
  asked.workload.max_num_seqs = Sequences{16};
  SECTION("of decode: sequences times 1 + 7 tokens times 32 heads of 128") {
    const Plan plan = plan_of(
        asked, registry_where(KernelRole::kTargetDecode, [](const WorkspaceShape& shape) {
          return Bytes{shape.batch * shape.query_tokens * shape.query_heads * shape.value_dim};
        }));
    CHECK(plan.resolution.workspace == Bytes{524'288});
    CHECK(workspaces(plan).bytes == Bytes{2'097'152});  // one granule
    CHECK(workspaces(plan).reason ==
          "shared by the bundled kernels, for the largest shape, in whole granules");
    const PoolPlan& rank = plan.ranks.front();
    CHECK(rank.workspace == Bytes{2'097'152});
    Bytes sum = rank.workspace;
    for (const PoolAccount& account : rank.accounts) {
      sum += account.share;
    }
    CHECK(sum == Bytes{1 << 30});
  }
  SECTION("of the drafter's block: 16 sequences of 7 tokens, 16 heads of 64") {
    const Plan plan = plan_of(
        asked, registry_where(KernelRole::kDraftBlock, [](const WorkspaceShape& shape) {
          return Bytes{shape.batch * shape.query_tokens * shape.query_heads * shape.value_dim};
        }));
    CHECK(plan.resolution.workspace == Bytes{114'688});
  }
  SECTION("the shape has KV heads, both rows and the GPU's multiprocessors") {
    const auto needed = [](const WorkspaceShape& shape) {
      return Bytes{shape.kv_heads * 1'000'000'000 + shape.key_dim * 1'000'000 +
                   shape.value_dim * 1'000 + shape.multiprocessors};
    };
    // Without a GPU the most that a known sm_90 has, not the 188 of an RTX PRO 6000.
    CHECK(plan_of(asked, registry_where(KernelRole::kTargetDecode, needed)).resolution.workspace ==
          Bytes{8'128'128'132});
    asked.device = find_device("h200");
    CHECK(plan_of(asked, registry_where(KernelRole::kTargetDecode, needed)).resolution.workspace ==
          Bytes{8'128'128'132});
  }
  SECTION("of a prompt: the tokens of one step") {
    const Plan plan =
        plan_of(asked, registry_where(KernelRole::kTargetPrefill, [](const WorkspaceShape& shape) {
                  return Bytes{shape.batch * shape.query_tokens};
                }));
    CHECK(plan.resolution.workspace == Bytes{8'192});
  }
  SECTION("a workspace beyond the budget does not fit, and the least budget counts it") {
    const Plan plan = plan_of(asked, registry_where(KernelRole::kAppend, [](const WorkspaceShape&) {
                                return Bytes{std::int64_t{1} << 40};
                              }));
    CHECK_FALSE(plan.fits);
    REQUIRE_FALSE(plan.refusals.empty());
    CHECK(plan.refusals.front().id == "does_not_fit");
    PlanRequest enough = asked;
    enough.budget.kv_budget = *asked.budget.kv_budget + plan.refusals.front().missing_bytes;
    CHECK(allocate_plan(enough, plan.resolution)->fits);
    enough.budget.kv_budget = *enough.budget.kv_budget - Bytes{1};
    CHECK_FALSE(allocate_plan(enough, plan.resolution)->fits);
  }
}

TEST_CASE("other kernel sets charge no workspace", "[kernels]") {
  PlanRequest asked = request();
  asked.kernel_set = KernelSet::kTrtllm;
  const Plan plan = plan_of(asked, registry_with_bundled_kernels());
  CHECK(plan.resolution.workspace == Bytes{0});
  CHECK_THAT(workspaces(plan).reason, ContainsSubstring("no bundled kernel is planned for"));
}

}  // namespace
}  // namespace kvpool::kernels
