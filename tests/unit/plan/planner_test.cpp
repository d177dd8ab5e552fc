// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/planner.hpp>

#include "support/catch.hpp"
#include "support/models.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace kvpool {
namespace {

using test::dspark_gqa;
using test::full_and_windows;
using test::kimi_k3;
using test::llama_8b;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Plan plan_of(const PlanRequest& request) {
  auto plan = make_plan(request, CapabilityRegistry::with_known_kernels());
  if (!plan.has_value()) {
    FAIL(plan.error().key << ": " << plan.error().message);
  }
  return *plan;
}

PlanRequest k3_request() {
  return {.target = kimi_k3(),
          .drafter = DrafterRequest{.kind = DrafterKind::kDspark, .model = dspark_gqa(96, 16)},
          .parallelism = {.tensor = 16},
          .device = find_device("gb200"),
          .budget = {.kv_budget = Bytes{60 * kGiB}},
          .workload = {.max_num_seqs = Sequences{2}},
          .tokens_per_block = Tokens{64}};
}

const PoolDescriptor& pool(const Plan& plan, std::string_view name) {
  const auto& pools = plan.ranks[plan.smallest_rank].pools;
  const auto found = std::ranges::find(pools, name, &PoolDescriptor::name);
  REQUIRE(found != pools.end());
  return *found;
}

const Decision* decision(const Plan& plan, std::string_view id) {
  const auto found = std::ranges::find(plan.decisions, id, &Decision::id);
  return found == plan.decisions.end() ? nullptr : &*found;
}

TEST_CASE("Kimi-K3 with its drafter at TP16: three pools in one budget") {
  const Plan plan = plan_of(k3_request());
  CHECK(plan.fits);
  CHECK(plan.refusals.empty());
  // 24 MLA layers of 1,152 bytes a token: 27,648; the drafter: 1,280.
  CHECK(pool(plan, "target").slab_bytes == Bytes{64 * 27'648});
  CHECK(pool(plan, "draft").slab_bytes == Bytes{81'920});
  // 69 KDA layers of 13,824 + 393,216 bytes a slot; two sequences, each with a snapshot.
  CHECK(pool(plan, "state").slab_bytes == Bytes{69 * 407'040});
  CHECK(pool(plan, "state").slabs == Slabs{4});
  CHECK(plan.resolution.draft_page == Tokens{64});
}

TEST_CASE("the ledger's lines below the KV budget sum to it") {
  const Plan plan = plan_of(k3_request());
  Bytes sum;
  bool below = false;
  for (const LedgerLine& line : plan.ledger) {
    sum += below ? line.bytes : Bytes{0};
    below = below || line.name == "kv_budget";
  }
  CHECK(sum == Bytes{60 * kGiB});
}

TEST_CASE("a draft page of 32 loses the fused kernel, at its measured cost") {
  PlanRequest request = k3_request();
  request.drafter->tokens_per_block = Tokens{32};
  const Plan plan = plan_of(request);
  CHECK(pool(plan, "draft").groups[0].page.tokens_per_block == Tokens{32});
  const Decision* lost = decision(plan, "preferred_kernel_lost");
  REQUIRE(lost != nullptr);
  CHECK(lost->cost.value == 306);
}

TEST_CASE("a plan does not fit and says how many bytes are missing, exactly") {
  PlanRequest request{.target = llama_8b(),
                      .budget = {.kv_budget = Bytes{kGiB}},
                      .workload = {.max_num_seqs = Sequences{4}},
                      .reserved_pages = 0};
  const Plan plan = plan_of(request);
  CHECK_FALSE(plan.fits);
  REQUIRE(plan.refusals.size() == 1);
  // Four sequences of 131,072 tokens of 131,072 bytes: 64 GiB.
  CHECK(plan.refusals[0].id == "does_not_fit");
  CHECK_THAT(plan.refusals[0].what,
             Catch::Matchers::ContainsSubstring("4 sequences of 131,072 tokens need a KV budget"));
  CHECK(plan.refusals[0].missing_bytes == Bytes{63 * kGiB});
  // 8,192 tokens are there: 2,048 for each of four.
  CHECK(plan.capacity.tokens == Tokens{8'192});
  CHECK(plan.capacity.max_len == Tokens{2'048});
  CHECK(plan.capacity.sequences == Sequences{0});
  request.workload.max_num_seqs = Sequences{1};
  const Plan one = plan_of(request);
  REQUIRE(one.refusals.size() == 1);
  CHECK_THAT(one.refusals[0].what,
             Catch::Matchers::ContainsSubstring("1 sequence of 131,072 tokens needs a KV budget"));
}

TEST_CASE("the draft pool keeps its own format when the target's is FP8") {
  PlanRequest request = k3_request();
  request.kv_dtype = KvDtype::kFp8E4m3;
  const Plan plan = plan_of(request);
  CHECK(pool(plan, "target").slab_bytes == Bytes{64 * 24 * 576});
  CHECK(pool(plan, "draft").slab_bytes == Bytes{81'920});
  REQUIRE(decision(plan, "draft_kv_cache_dtype") != nullptr);
  CHECK(decision(plan, "draft_kv_cache_dtype")->chosen == "bf16");
}

TEST_CASE("fp4_mla on a hybrid model is refused by name") {
  PlanRequest request = k3_request();
  request.kv_dtype = KvDtype::kFp4Mla;
  request.tokens_per_block = Tokens{128};
  const Plan plan = plan_of(request);
  CHECK_FALSE(plan.fits);
  REQUIRE_FALSE(plan.refusals.empty());
  CHECK_THAT(plan.refusals[0].what, Catch::Matchers::ContainsSubstring("kimi_linear"));
  CHECK(plan.refusals[0].missing_bytes == Bytes{0});
}

TEST_CASE("pipeline stages are planned one by one, and the smallest decides") {
  PlanRequest request{.target = llama_8b(),
                      .parallelism = {.pipeline = 3},
                      .budget = {.kv_budget = Bytes{8 * kGiB}}};
  const Plan plan = plan_of(request);
  REQUIRE(plan.ranks.size() == 3);
  // 32 layers over 3 stages: 11, 11, 10.
  CHECK(plan.ranks[0].pools[0].groups[0].group.layers.size() == 11);
  CHECK(plan.ranks[2].pools[0].groups[0].group.layers.size() == 10);
  CHECK(plan.smallest_rank == 0);
  CHECK(plan.ranks[2].pools[0].slabs > plan.ranks[0].pools[0].slabs);
}

TEST_CASE("an external drafter is split over stages, Eagle3 stands on the last") {
  PlanRequest request{
      .target = llama_8b(),
      .drafter = DrafterRequest{.kind = DrafterKind::kDflash, .model = dspark_gqa(32, 8)},
      .parallelism = {.pipeline = 2},
      .budget = {.kv_budget = Bytes{8 * kGiB}}};
  const Plan split = plan_of(request);
  CHECK(split.ranks[0].pools.size() == 2);
  CHECK(split.ranks[1].pools.size() == 2);
  request.drafter->kind = DrafterKind::kEagle3;
  const Plan last = plan_of(request);
  CHECK(last.ranks[0].pools.size() == 1);
  CHECK(last.ranks[1].pools.size() == 2);
}

TEST_CASE("groups share slabs where a slab suits them all") {
  const Plan plan = plan_of({.target = full_and_windows(12, 12, 8),
                             .budget = {.kv_budget = Bytes{8 * kGiB}},
                             .workload = {.max_num_seqs = Sequences{4}}});
  const PoolDescriptor& target = pool(plan, "target");
  REQUIRE(target.groups.size() == 2);
  CHECK(target.slab_bytes == target.groups[0].page.page_bytes);
  // Four windows of 1,024 tokens: 17 pages each; one step of 8,192 tokens more.
  CHECK(target.groups[1].planned_slabs == Slabs{4 * 17 + 128});
  CHECK(decision(plan, "separate_group_pools") == nullptr);
}

TEST_CASE("groups without a common slab get pools of their own, as a decision") {
  const Plan plan = plan_of({.target = full_and_windows(10, 52, 32),
                             .budget = {.kv_budget = Bytes{32 * kGiB}},
                             .workload = {.max_num_seqs = Sequences{1}}});
  CHECK(decision(plan, "separate_group_pools") != nullptr);
  CHECK(pool(plan, "target/full").groups.size() == 1);
  CHECK(pool(plan, "target/sliding_window_1024").slabs == Slabs{17 + 128});
}

TEST_CASE("a drafter that knows fewer positions stops there, as a decision") {
  PlanRequest request = k3_request();
  request.drafter->model->max_positions = Tokens{65'536};
  const Plan plan = plan_of(request);
  REQUIRE(decision(plan, "draft_max_len") != nullptr);
  CHECK(decision(plan, "draft_max_len")->chosen == "65536");
}

TEST_CASE("MTP on a model without next-token layers is refused") {
  const Plan plan = plan_of({.target = llama_8b(),
                             .drafter = DrafterRequest{.kind = DrafterKind::kMtp},
                             .budget = {.kv_budget = Bytes{kGiB}}});
  REQUIRE_FALSE(plan.refusals.empty());
  CHECK(plan.refusals[0].id == "drafter");
}

TEST_CASE("numbers outside their domain are errors that name the option") {
  PlanRequest request{.target = llama_8b(), .budget = {.kv_budget = Bytes{kGiB}}};
  request.workload.max_model_len = Tokens{1'000'000'000'000'000'000};
  const auto plan = make_plan(request, CapabilityRegistry::with_known_kernels());
  REQUIRE_FALSE(plan.has_value());
  CHECK(plan.error().key == "max_model_len");
}

TEST_CASE("a private arena is shown beside a standalone drafter's pool") {
  PlanRequest request = k3_request();
  request.parallelism.tensor = 8;
  request.workload = {.max_num_seqs = Sequences{8}, .max_model_len = Tokens{997'696}};
  request.drafter->num_draft_tokens = Tokens{8};
  const Plan plan = plan_of(request);
  CHECK(plan.private_arena == Bytes{22'987'653'120});
}

}  // namespace
}  // namespace kvpool
