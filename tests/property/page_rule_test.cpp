// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Law 2: which page a draft pool gets. Expected pages are literals.
#include "scenario.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace kvpool {
namespace {

/// Target's page and the page of a standalone drafter's pool.
constexpr std::pair<std::int64_t, std::int64_t> kPages[] = {{64, 64}, {32, 32},  {8, 32},  {16, 32},
                                                            {48, 32}, {128, 32}, {256, 32}};

/// Draft-block rows that serve one of `users`: for a standalone drafter those of both kinds are
/// asked, because the back-end is picked at run time.
std::vector<KernelCapability> rows_serving(const std::vector<PoolUser>& users) {
  std::vector<KernelCapability> rows;
  for (const KernelCapability& row : known_kernels()) {
    const bool serves = std::ranges::find_first_of(row.serves, users) != row.serves.end();
    if (serves && row.role == KernelRole::kDraftBlock) {
      rows.push_back(row);
    }
  }
  return rows;
}

KernelCapability user_row(std::string name, PoolUser user, KernelRole role, PageSizeRule pages) {
  KernelCapability row;
  row.name = std::move(name);
  row.provider = "test";
  row.versions = "1";
  row.serves = {user};
  row.role = role;
  row.page_sizes = std::move(pages);
  row.necessity = Necessity::kRequired;
  row.source = "this test";
  return row;
}

PageSizeRule only(std::int64_t size) { return PageSizeRule{PageSizeRule::OneOf{{size}}}; }

/// The known rows and a target row of the user that accepts any page.
CapabilityRegistry registry_with_any_target() {
  CapabilityRegistry registry = CapabilityRegistry::with_known_kernels();
  REQUIRE(registry
              .add(user_row("my_target", PoolUser::kTarget, KernelRole::kTargetDecode,
                            PageSizeRule{PageSizeRule::Any{}}))
              .has_value());
  return registry;
}

PlanRequest request_for(const test::Config& target, DrafterKind kind, const test::Config* drafter,
                        std::int64_t page, const std::string& gpu) {
  PlanRequest request;
  request.target = target.model;
  request.drafter = DrafterRequest{.kind = kind};
  if (drafter != nullptr) {
    request.drafter->model = drafter->model;
  }
  request.parallelism.tensor = 16;
  request.budget.kv_budget = Bytes{std::int64_t{8} << 30};
  request.workload.max_model_len = Tokens{2048};
  request.tokens_per_block = Tokens{page};
  request.device = find_device(gpu);
  REQUIRE(request.device.has_value());
  return request;
}

const Decision* find(const std::vector<Decision>& decisions, const std::string& id,
                     const std::string& reason = {}) {
  for (const Decision& decision : decisions) {
    if (decision.id == id && decision.reason.find(reason) != std::string::npos) {
      return &decision;
    }
  }
  return nullptr;
}

const Refusal* find_refusal(const Plan& plan, const std::string& id) {
  for (const Refusal& refusal : plan.refusals) {
    if (refusal.id == id) {
      return &refusal;
    }
  }
  return nullptr;
}

/// Page of the draft pool as it was laid out.
std::int64_t draft_page(const Plan& plan) {
  for (const PoolDescriptor& pool : plan.ranks.at(0).pools) {
    if (pool.role == PoolRole::kDraft) {
      return pool.groups.at(0).page.tokens_per_block.count();
    }
  }
  return 0;
}

std::int64_t target_page(const Plan& plan) {
  return plan.ranks.at(0).pools.at(0).groups.at(0).page.tokens_per_block.count();
}

Plan planned(const PlanRequest& request, const CapabilityRegistry& registry) {
  auto plan = make_plan(request, registry);
  REQUIRE(plan.has_value());
  return *std::move(plan);
}

}  // namespace

TEST_CASE("decide_draft_page keeps 32 and 64, and else chooses 32") {
  const auto rows = rows_serving({PoolUser::kDspark, PoolUser::kDflash});
  REQUIRE(rows.size() == 8);
  for (const auto& [target, draft] : kPages) {
    INFO(target);
    const PageSizeChoice choice = decide_draft_page(Tokens{target}, rows);
    REQUIRE(choice.tokens_per_block.has_value());
    CHECK(choice.tokens_per_block->count() == draft);
    CHECK_FALSE(choice.refusal.has_value());
    CHECK(choice.decision.chosen == std::to_string(draft));
  }
  // The rows of DFlash alone would accept 16, those of DSpark not: the intersection is computed.
  const auto dflash = rows_serving({PoolUser::kDflash});
  CHECK(decide_draft_page(Tokens{16}, dflash).tokens_per_block == Tokens{16});
  const auto dspark = rows_serving({PoolUser::kDspark});
  CHECK(decide_draft_page(Tokens{16}, dspark).tokens_per_block == Tokens{32});
  CHECK(decide_draft_page(Tokens{128}, dspark).tokens_per_block == Tokens{32});
}

TEST_CASE("a pool of a standalone drafter has the page of the rule, end to end") {
  const auto target = test::own_config("qwen3-8b");
  const auto gqa = test::own_config("dspark-k3-96x16");
  const auto mla = test::own_config("dspark-mla-5x576");
  const auto dflash = test::own_config("dflash-5-full");
  const auto mixed = test::own_config("dflash-4-sliding-1-full");
  const auto registry = registry_with_any_target();
  const std::pair<DrafterKind, const test::Config*> drafters[] = {{DrafterKind::kDspark, &gqa},
                                                                  {DrafterKind::kDspark, &mla},
                                                                  {DrafterKind::kDflash, &dflash},
                                                                  {DrafterKind::kDflash, &mixed}};
  for (const char* gpu : {"b200", "h200"}) {
    for (const auto& [kind, config] : drafters) {
      for (const auto& [page, expected] : kPages) {
        INFO(gpu << ' ' << config->name << ' ' << page);
        const Plan plan = planned(request_for(target, kind, config, page, gpu), registry);
        REQUIRE(plan.refusals.empty());
        REQUIRE(plan.fits);
        CHECK(target_page(plan) == page);
        CHECK(draft_page(plan) == expected);
        CHECK(plan.resolution.draft_page == Tokens{expected});
        const Decision* decision = find(plan.decisions, "draft_page_size");
        REQUIRE(decision != nullptr);
        CHECK(decision->pool == "draft");
        CHECK(decision->chosen == std::to_string(expected));
        CHECK(decision->instead_of == (page == expected ? "" : std::to_string(page)));
        CHECK_FALSE(decision->verdicts.empty());
      }
    }
  }
}

TEST_CASE("an FP4 MLA target has pages of 128 and its standalone drafter of 32") {
  const auto target = test::own_config("deepseek-v3");
  const auto drafter = test::own_config("dspark-mla-5x576");
  for (const char* gpu : {"b200", "h200"}) {
    PlanRequest request = request_for(target, DrafterKind::kDspark, &drafter, 128, gpu);
    request.kv_dtype = KvDtype::kFp4Mla;
    for (const bool asked : {true, false}) {
      INFO(gpu << " asked " << asked);
      if (!asked) {
        request.tokens_per_block.reset();
      }
      const Plan plan = planned(request, test::known());
      REQUIRE(plan.refusals.empty());
      CHECK(target_page(plan) == 128);
      CHECK(draft_page(plan) == 32);
    }
    request.tokens_per_block = Tokens{64};
    const Plan refused = planned(request, test::known());
    REQUIRE(find_refusal(refused, "target_page_size") != nullptr);
    CHECK(find_refusal(refused, "target_page_size")->accepted == std::vector<std::string>{"128"});
  }
}

TEST_CASE("FP4 MLA is refused in a pool whose page cannot be 128, and not laid out wrong") {
  const auto target = test::own_config("deepseek-v3");
  const auto drafter = test::own_config("dspark-mla-5x576");
  // The drafter's page is 32 or 64, so its pool cannot be fp4_mla.
  PlanRequest request = request_for(target, DrafterKind::kDspark, &drafter, 64, "b200");
  request.drafter->kv_dtype = KvDtype::kFp4Mla;
  const Plan plan = planned(request, test::known());
  CHECK_FALSE(plan.fits);
  REQUIRE(plan.refusals.size() == 1);
  CHECK_FALSE(plan.refusals[0].least_that_works.empty());
  // Without any row that says so, the format's own rule remains.
  request.drafter.reset();
  request.kv_dtype = KvDtype::kFp4Mla;
  const Plan bare = planned(request, CapabilityRegistry{});
  CHECK_FALSE(bare.fits);
  REQUIRE(find_refusal(bare, "target_page_size") != nullptr);
  request.tokens_per_block.reset();
  const Plan moved = planned(request, CapabilityRegistry{});
  REQUIRE(moved.refusals.empty());
  CHECK(target_page(moved) == 128);
}

TEST_CASE("MTP and Eagle3 keep the target's page at 64 and at 128") {
  const auto deepseek = test::own_config("deepseek-v3");
  const auto llama = test::own_config("llama-3.1-8b");
  const auto eagle3 = test::own_config("eagle3-llama-8b");
  const auto registry = registry_with_any_target();
  for (const std::int64_t page : {64, 128}) {
    INFO(page);
    const Plan mtp =
        planned(request_for(deepseek, DrafterKind::kMtp, nullptr, page, "b200"), registry);
    REQUIRE(mtp.refusals.empty());
    CHECK(target_page(mtp) == page);
    CHECK(draft_page(mtp) == page);
    for (const char* gpu : {"b200", "h200"}) {
      const Plan plan =
          planned(request_for(llama, DrafterKind::kEagle3, &eagle3, page, gpu), registry);
      REQUIRE(plan.refusals.empty());
      CHECK(target_page(plan) == page);
      CHECK(draft_page(plan) == page);
    }
  }
  // On Hopper FlashMLA has pages of 64 only: asked for, 128 is refused.
  const Plan hopper =
      planned(request_for(deepseek, DrafterKind::kMtp, nullptr, 128, "h200"), registry);
  REQUIRE(find_refusal(hopper, "target_page_size") != nullptr);
  const Plan kept =
      planned(request_for(deepseek, DrafterKind::kMtp, nullptr, 64, "h200"), registry);
  CHECK(kept.refusals.empty());
  CHECK(draft_page(kept) == 64);
}

TEST_CASE("a page of its own is refused to MTP and Eagle3") {
  const auto llama = test::own_config("llama-3.1-8b");
  const auto eagle3 = test::own_config("eagle3-llama-8b");
  PlanRequest request = request_for(llama, DrafterKind::kEagle3, &eagle3, 64, "b200");
  request.drafter->tokens_per_block = Tokens{32};
  const Plan plan = planned(request, test::known());
  const Refusal* refusal = find_refusal(plan, "draft_page_size");
  REQUIRE(refusal != nullptr);
  CHECK(refusal->accepted == std::vector<std::string>{"64"});
  request.drafter->tokens_per_block = Tokens{64};
  CHECK(planned(request, test::known()).refusals.empty());
}

TEST_CASE("a required row that accepts only 64 keeps 64 and refuses 32 and 128") {
  const auto target = test::own_config("qwen3-8b");
  const auto dspark = test::own_config("dspark-k3-96x16");
  const auto dflash = test::own_config("dflash-5-full");
  for (const PoolUser served : {PoolUser::kDspark, PoolUser::kDflash}) {
    CapabilityRegistry registry = registry_with_any_target();
    REQUIRE(
        registry.add(user_row("only_64", served, KernelRole::kDraftBlock, only(64))).has_value());
    for (const auto& [kind, config] :
         {std::pair{DrafterKind::kDspark, &dspark}, std::pair{DrafterKind::kDflash, &dflash}}) {
      for (const char* gpu : {"b200", "h200"}) {
        INFO(to_string(served) << ' ' << to_string(kind) << ' ' << gpu);
        const Plan kept = planned(request_for(target, kind, config, 64, gpu), registry);
        CHECK(kept.refusals.empty());
        CHECK(draft_page(kept) == 64);
        for (const std::int64_t page : {32, 128}) {
          const Plan plan = planned(request_for(target, kind, config, page, gpu), registry);
          CHECK_FALSE(plan.fits);
          CHECK(plan.ranks.empty());
          const Refusal* refusal = find_refusal(plan, "draft_page_size");
          REQUIRE(refusal != nullptr);
          CHECK(refusal->accepted == std::vector<std::string>{"64"});
          CHECK(refusal->missing_bytes == Bytes{0});
          CHECK(refusal->least_that_works.find("64") != std::string::npos);
          // Every required row of both kinds has its verdict.
          for (const char* row :
               {"dspark_mla_trtllm_gen", "dspark_mla_cute_dsl", "dflash_gqa_trtllm_gen",
                "dflash_fa4", "dflash_vanilla", "only_64"}) {
            INFO(row);
            CHECK(std::ranges::count(refusal->verdicts, std::string{row}, &Verdict::row) == 1);
          }
          // What is said to work, works.
          PlanRequest again = request_for(target, kind, config, page, gpu);
          again.drafter->tokens_per_block = Tokens{64};
          const Plan works = planned(again, registry);
          CHECK(works.refusals.empty());
          CHECK(draft_page(works) == 64);
        }
      }
    }
  }
}

TEST_CASE("an explicit draft page is kept or refused, never moved") {
  const auto target = test::own_config("qwen3-8b");
  const auto dspark = test::own_config("dspark-k3-96x16");
  const auto registry = registry_with_any_target();
  for (const std::int64_t page : {16, 32, 48, 64, 128}) {
    INFO(page);
    PlanRequest request = request_for(target, DrafterKind::kDspark, &dspark, 64, "b200");
    request.drafter->tokens_per_block = Tokens{page};
    const Plan plan = planned(request, registry);
    if (page == 32 || page == 64) {
      CHECK(plan.refusals.empty());
      CHECK(draft_page(plan) == page);
    } else {
      const Refusal* refusal = find_refusal(plan, "draft_page_size");
      REQUIRE(refusal != nullptr);
      CHECK(refusal->accepted == std::vector<std::string>{"32", "64"});
    }
  }
}

TEST_CASE("the kernel set and the back-end change the asked rows as a decision") {
  const auto target = test::own_config("qwen3-8b");
  const auto gqa = test::own_config("dspark-k3-96x16");
  const auto registry = registry_with_any_target();

  SECTION("exact: a GQA drafter on b200 runs the GQA rows, which accept 16 too") {
    PlanRequest request = request_for(target, DrafterKind::kDspark, &gqa, 16, "b200");
    request.kernel_set = KernelSet::kExact;
    const Plan plan = planned(request, registry);
    REQUIRE(plan.refusals.empty());
    CHECK(draft_page(plan) == 16);
    CHECK(find(plan.decisions, "kernel_set") != nullptr);
  }
  SECTION("exact: 128 is still not accepted by any of them") {
    PlanRequest request = request_for(target, DrafterKind::kDspark, &gqa, 128, "b200");
    request.kernel_set = KernelSet::kExact;
    const Plan plan = planned(request, registry);
    REQUIRE(plan.refusals.empty());
    CHECK(draft_page(plan) == 32);
  }
  SECTION("a back-end that does not read the pool sets no condition") {
    PlanRequest request = request_for(target, DrafterKind::kDflash, &gqa, 128, "b200");
    request.drafter->backend = "VANILLA";
    const Plan plan = planned(request, registry);
    REQUIRE(plan.refusals.empty());
    CHECK(draft_page(plan) == 128);
    CHECK(find(plan.decisions, "kernel_set") != nullptr);
  }
  SECTION("CUTEDSL accepts the divisors of 128") {
    const auto mla = test::own_config("dspark-mla-5x576");
    PlanRequest request = request_for(target, DrafterKind::kDspark, &mla, 128, "b200");
    request.drafter->backend = "CUTEDSL";
    const Plan plan = planned(request, registry);
    REQUIRE(plan.refusals.empty());
    CHECK(draft_page(plan) == 128);
    CHECK(find(plan.decisions, "kernel_set") != nullptr);
  }
  SECTION("without them there is no such decision") {
    const Plan plan =
        planned(request_for(target, DrafterKind::kDspark, &gqa, 64, "b200"), registry);
    CHECK(find(plan.decisions, "kernel_set") == nullptr);
  }
  SECTION("an unknown back-end is refused") {
    PlanRequest request = request_for(target, DrafterKind::kDspark, &gqa, 64, "b200");
    request.drafter->backend = "NOSUCH";
    const Plan plan = planned(request, registry);
    CHECK(find_refusal(plan, "drafter_backend") != nullptr);
    CHECK_FALSE(plan.fits);
  }
  SECTION("the bundled kernels have no rows yet, and the refusal names what is missing") {
    PlanRequest request = request_for(target, DrafterKind::kDspark, &gqa, 64, "b200");
    request.kernel_set = KernelSet::kKvpool;
    const Plan plan = planned(request, test::known());
    CHECK_FALSE(plan.fits);
    REQUIRE(find_refusal(plan, "kernel_set") != nullptr);
    CHECK(plan.ranks.empty());
  }
}

TEST_CASE("the fused row is reported lost where it would have run, and only there") {
  const auto target = test::own_config("kimi-k3");
  const auto fused = test::own_config("dspark-k3-96x16");  // 6 heads a KV head
  const auto other = test::own_config("dspark-k3-64x16");  // 4 heads a KV head
  const auto lost = [&](const test::Config& drafter, std::int64_t draft_page_asked,
                        const std::string& gpu) {
    PlanRequest request = request_for(target, DrafterKind::kDspark, &drafter, 64, gpu);
    request.drafter->tokens_per_block = Tokens{draft_page_asked};
    const Plan plan = planned(request, test::known());
    REQUIRE(plan.refusals.empty());
    CHECK(draft_page(plan) == draft_page_asked);
    const Decision* decision =
        find(plan.decisions, "preferred_kernel_lost", "k3_drafter_attn_qknorm");
    return decision == nullptr ? std::optional<Decision>{} : std::optional{*decision};
  };
  for (const char* gpu : {"b200", "gb200"}) {
    INFO(gpu);
    const auto decision = lost(fused, 32, gpu);
    REQUIRE(decision.has_value());
    CHECK(decision->cost.value == 306);
    CHECK(decision->cost.unit == "us_per_step");
    CHECK(decision->cost.conditions.find("257") != std::string::npos);
    CHECK(decision->instead_of == "64");
    CHECK_FALSE(lost(fused, 64, gpu).has_value());
    CHECK_FALSE(lost(other, 32, gpu).has_value());
  }
  CHECK_FALSE(lost(fused, 32, "h200").has_value());
}

TEST_CASE("the target's own page: 64, or what its kernels accept") {
  const auto page_of = [](const char* config, const char* gpu, std::optional<KvDtype> dtype) {
    PlanRequest request;
    request.target = test::own_config(config).model;
    request.device = find_device(gpu);
    request.budget.kv_budget = Bytes{std::int64_t{40} << 30};
    request.workload.max_model_len = Tokens{2048};
    request.kv_dtype = dtype;
    const auto plan = make_plan(request, test::known());
    REQUIRE(plan.has_value());
    REQUIRE(plan->refusals.empty());
    CHECK(find(plan->decisions, "target_page_size") != nullptr);
    return plan->resolution.target_page.count();
  };
  CHECK(page_of("llama-3.1-8b", "h100", {}) == 64);
  CHECK(page_of("llama-3.1-8b", "b200", {}) == 64);
  CHECK(page_of("deepseek-v3", "h200", {}) == 64);
  CHECK(page_of("deepseek-v3", "b200", {}) == 64);
  CHECK(page_of("deepseek-v3", "b200", KvDtype::kFp4Mla) == 128);
  CHECK(page_of("kimi-k3", "b200", {}) == 64);
  CHECK(page_of("gemma-3-27b", "b200", {}) == 64);
}

TEST_CASE("Kimi-K3 with FP4 MLA is refused by name") {
  const auto target = test::own_config("kimi-k3");
  for (const std::int64_t page : {64, 128}) {
    PlanRequest request = request_for(target, DrafterKind::kNgram, nullptr, page, "b200");
    request.kv_dtype = KvDtype::kFp4Mla;
    const Plan plan = planned(request, test::known());
    CHECK_FALSE(plan.fits);
    const Refusal* refusal = find_refusal(plan, "kv_cache_dtype");
    REQUIRE(refusal != nullptr);
    CHECK(refusal->what.find("hybrid linear attention") != std::string::npos);
    CHECK(refusal->what.find("kimi") != std::string::npos);
    CHECK_FALSE(refusal->accepted.empty());
  }
}

TEST_CASE("drafters that no row is about follow the target, as a decision") {
  const auto target = test::own_config("llama-3.1-70b");
  const auto small = test::own_config("llama-3.1-8b");
  for (const DrafterKind kind : {DrafterKind::kDraftTarget, DrafterKind::kPard}) {
    const Plan plan = planned(request_for(target, kind, &small, 128, "b200"), test::known());
    REQUIRE(plan.refusals.empty());
    CHECK(draft_page(plan) == 128);
    CHECK(find(plan.decisions, "draft_page_size") != nullptr);
  }
}

}  // namespace kvpool
