// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// How a budget is split between target and draft: the behaviours that TensorRT-LLM tests, by their
// numbers in docs/testing_trtllm_behaviours.md, which says why those that are missing here do not
// apply. A "total" cost there is target and draft together: 100 against 80 is a draft of 20.
#include <kvpool/plan/affine_cost.hpp>

#include "scenario.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

namespace kvpool {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

AffineCost cost(std::int64_t fixed, std::int64_t slope) {
  return {.fixed_bytes = Bytes{fixed}, .bytes_per_token = Bytes{slope}};
}

BudgetShares shares(std::int64_t target, std::int64_t draft) {
  return {.target = Bytes{target}, .draft = Bytes{draft}};
}

/// A model of `windows.size()` layers with one KV head; 0 is full attention.
ModelConfig model_of(const std::vector<std::int64_t>& windows, std::int64_t dim) {
  ModelConfig model;
  model.name = "written by hand";
  model.model_type = "test";
  model.native_dtype = KvDtype::kBf16;
  model.max_positions = Tokens{16'384};
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const Span span = windows[i] > 0 ? Span{SpanKind::kSlidingWindow, Tokens{windows[i]}} : Span{};
    model.layers.push_back({.index = LayerIndex{static_cast<std::int32_t>(i)},
                            .caches = {AttentionCache{.query_heads = Heads{1},
                                                      .kv_heads = Heads{1},
                                                      .key_dim = dim,
                                                      .value_dim = dim,
                                                      .span = span}}});
  }
  return model;
}

PlanRequest request_of(ModelConfig target, std::int64_t budget) {
  PlanRequest request;
  request.target = std::move(target);
  request.budget.kv_budget = Bytes{budget};
  request.tokens_per_block = Tokens{64};
  request.workload.max_model_len = Tokens{4096};
  return request;
}

const PoolDescriptor* find_pool(const Plan& plan, PoolRole role) {
  for (const PoolDescriptor& pool : plan.ranks.at(0).pools) {
    if (pool.role == role) {
      return &pool;
    }
  }
  return nullptr;
}

}  // namespace

TEST_CASE("behaviour 1: the draft is charged for its own window, not the target's") {
  PlanRequest request = request_of(model_of({16'384, 0}, 16), kGiB);
  request.drafter = DrafterRequest{.kind = DrafterKind::kDflash, .model = model_of({512, 0}, 16)};
  const PlanRequest before = request;
  const auto plan = make_plan(request, test::known());
  REQUIRE(plan.has_value());
  REQUIRE(plan->fits);
  CHECK(request == before);
  const PoolDescriptor* draft = find_pool(*plan, PoolRole::kDraft);
  REQUIRE(draft != nullptr);
  REQUIRE(draft->groups.size() == 2);
  CHECK(draft->groups[1].group.span == Span{SpanKind::kSlidingWindow, Tokens{512}});
  // 64 B a token (16 elements, K and V, bf16): 512 tokens and the page in which the window starts.
  const AffineCost window = sequence_cost(draft->groups[1], {.lookahead = Tokens{1}});
  CHECK(window.fixed_bytes.count() == (512 + 64) * 64);
  CHECK(window.bytes_per_token.count() == 0);
  CHECK(sequence_cost(draft->groups[0], {.lookahead = Tokens{1}}).bytes_per_token.count() == 64);
}

TEST_CASE("behaviour 2: a target that does not fit does not shorten the draft") {
  PlanRequest request = request_of(model_of({0, 0, 0, 0}, 128), std::int64_t{16} << 20);
  request.workload.max_model_len = Tokens{16'384};
  request.drafter =
      DrafterRequest{.kind = DrafterKind::kDflash, .model = model_of({4096, 16'384}, 16)};
  const auto plan = make_plan(request, test::known());
  REQUIRE(plan.has_value());
  CHECK_FALSE(plan->fits);
  CHECK(plan->resolution.draft_max_len == Tokens{16'384});
  CHECK(plan->resolution.max_model_len == Tokens{16'384});
}

TEST_CASE("behaviour 3: different windows are groups, a recurrent state is no window") {
  const auto groups_of = [](const ModelConfig& model) {
    const auto layers = layer_geometry(model.layers, {}, {});
    REQUIRE(layers.has_value());
    return group_layers(*layers);
  };
  CHECK(groups_of(model_of({4096, 16'384}, 64)).size() == 2);
  CHECK(groups_of(model_of({4096, 4096}, 64)).size() == 1);
  const auto hybrid = groups_of(test::own_config("qwen3-next-80b").model);
  REQUIRE(hybrid.size() == 2);
  CHECK(hybrid[0].span == Span{});
  CHECK_FALSE(hybrid[0].is_state);
  CHECK(hybrid[1].is_state);
}

TEST_CASE("behaviour 4: 10 GiB at 100 against 80 bytes a token are 8 and 2 GiB") {
  const BudgetSplit split = split_budget(Bytes{10 * kGiB}, cost(0, 80), cost(0, 20));
  REQUIRE(split.shares.has_value());
  CHECK(*split.shares == shares(8 * kGiB, 2 * kGiB));
  CHECK_FALSE(split.refusal.has_value());
}

TEST_CASE("behaviour 5: without any budget nothing is split") {
  PlanRequest request = request_of(model_of({0}, 64), 0);
  request.budget.kv_budget.reset();
  const auto plan = make_plan(request, test::known());
  REQUIRE_FALSE(plan.has_value());
  CHECK(plan.error().code == ErrorCode::kInvalidArgument);
  // A budget of 0 is not "unset": it does not fit, and says what would.
  request.budget.kv_budget = Bytes{0};
  const auto zero = make_plan(request, test::known());
  REQUIRE(zero.has_value());
  CHECK_FALSE(zero->fits);
  REQUIRE(zero->refusals.size() == 1);
  CHECK(zero->refusals[0].missing_bytes > Bytes{0});
}

TEST_CASE("behaviour 6: a drafter without a cache leaves everything to the target") {
  const BudgetSplit split = split_budget(Bytes{10 * kGiB}, cost(0, 80), cost(0, 0));
  REQUIRE(split.shares.has_value());
  CHECK(*split.shares == shares(10 * kGiB, 0));
  PlanRequest request = request_of(model_of({0}, 64), kGiB);
  request.drafter = DrafterRequest{.kind = DrafterKind::kNgram, .num_draft_tokens = Tokens{4}};
  const auto plan = make_plan(request, test::known());
  REQUIRE(plan.has_value());
  REQUIRE(plan->ranks.at(0).pools.size() == 1);
  CHECK(plan->ranks[0].accounts[0].share == Bytes{kGiB});
}

TEST_CASE("behaviours 7 to 9: sides whose cost does not grow") {
  constexpr std::int64_t kSlots = std::int64_t{2561} * 327'680;
  const auto fixed_draft = split_budget(Bytes{10 * kGiB}, cost(0, 80), cost(kSlots, 0));
  REQUIRE(fixed_draft.shares.has_value());
  CHECK(*fixed_draft.shares == shares(10 * kGiB - 839'188'480, 839'188'480));

  const auto exact = split_budget(Bytes{500}, cost(300, 0), cost(200, 0));
  REQUIRE(exact.shares.has_value());
  CHECK(*exact.shares == shares(300, 200));
  const auto surplus = split_budget(Bytes{1000}, cost(300, 0), cost(200, 0));
  REQUIRE(surplus.shares.has_value());
  CHECK(*surplus.shares == shares(800, 200));
  CHECK(split_budget(Bytes{499}, cost(300, 0), cost(200, 0)).refusal->missing_bytes == Bytes{1});

  const auto fixed_target = split_budget(Bytes{1000}, cost(300, 0), cost(0, 10));
  REQUIRE(fixed_target.shares.has_value());
  CHECK(*fixed_target.shares == shares(300, 700));
}

TEST_CASE("behaviour 10: a budget of exactly the fixed costs is refused if something grows") {
  const auto split = split_budget(Bytes{500}, cost(300, 80), cost(200, 0));
  CHECK_FALSE(split.shares.has_value());
  REQUIRE(split.refusal.has_value());
  CHECK(split.refusal->missing_bytes == Bytes{1});
  CHECK(split.refusal->what.find("budget") != std::string::npos);
  CHECK(split_budget(Bytes{501}, cost(300, 80), cost(200, 0)).shares.has_value());
  CHECK_FALSE(split_budget(Bytes{500}, cost(300, 0), cost(200, 80)).shares.has_value());
}

TEST_CASE("behaviours 11 to 13, 20 and 28: an offload tier is split by slope and sums exactly") {
  const BudgetShares tier = split_offload_tier(Bytes{20 * kGiB}, cost(0, 80), cost(0, 20));
  CHECK(tier == shares(16 * kGiB, 4 * kGiB));
  for (std::int64_t bytes : {std::int64_t{1}, std::int64_t{3}, std::int64_t{999'999'999'999}}) {
    const BudgetShares odd = split_offload_tier(Bytes{bytes}, cost(0, 80), cost(0, 19));
    CHECK(odd.target + odd.draft == Bytes{bytes});
  }
}

TEST_CASE("behaviours 15, 19, 22 and 23: fixed costs live on the GPU and do not bend a tier") {
  const AffineCost target = cost(50 * kGiB, 80);
  const AffineCost draft = cost(100 * kGiB, 20);
  const auto gpu = split_budget(Bytes{200 * kGiB}, target, draft);
  REQUIRE(gpu.shares.has_value());
  CHECK(*gpu.shares == shares(90 * kGiB, 110 * kGiB));
  CHECK(split_offload_tier(Bytes{20 * kGiB}, target, draft) == shares(16 * kGiB, 4 * kGiB));
}

TEST_CASE("behaviour 17: a tier of zero bytes stays zero") {
  CHECK(split_offload_tier(Bytes{0}, cost(0, 80), cost(0, 20)) == shares(0, 0));
  CHECK(split_offload_tier(Bytes{100}, cost(5, 0), cost(7, 0)) == shares(100, 0));
}

TEST_CASE("behaviour 18: ratios sum exactly") {
  for (const auto& [target, draft] :
       {std::pair{50, 50}, std::pair{75, 25}, std::pair{90, 10}, std::pair{95, 5}}) {
    for (const std::int64_t bytes : {20 * kGiB, 20 * kGiB + 1, std::int64_t{12'345'678'901}}) {
      INFO(target << '/' << draft << " of " << bytes);
      const BudgetShares tier = split_offload_tier(Bytes{bytes}, cost(0, target), cost(0, draft));
      CHECK(tier.target + tier.draft == Bytes{bytes});
      CHECK(tier.draft.count() == bytes / 100 * draft + bytes % 100 * draft / 100);
      const auto gpu = split_budget(Bytes{bytes}, cost(0, target), cost(0, draft));
      REQUIRE(gpu.shares.has_value());
      CHECK(*gpu.shares == tier);
    }
  }
}

TEST_CASE("behaviour 24: 10 GiB with a fixed draft cost of 5 GiB are 4 and 6 GiB") {
  const auto split = split_budget(Bytes{10 * kGiB}, cost(0, 80), cost(5 * kGiB, 20));
  REQUIRE(split.shares.has_value());
  CHECK(*split.shares == shares(4 * kGiB, 6 * kGiB));
}

TEST_CASE("behaviours 25 and 26: fixed costs above the budget are refused, a tier is split still") {
  const AffineCost target = cost(0, 80);
  const AffineCost draft = cost(2 * kGiB, 20);
  const auto split = split_budget(Bytes{kGiB}, target, draft);
  CHECK_FALSE(split.shares.has_value());
  REQUIRE(split.refusal.has_value());
  CHECK(split.refusal->missing_bytes == Bytes{kGiB + 1});
  CHECK(split.refusal->least_that_works.find("2,147,483,649 B") != std::string::npos);
  CHECK(split_offload_tier(Bytes{20 * kGiB}, target, draft) == shares(16 * kGiB, 4 * kGiB));
}

TEST_CASE("behaviour 31: both sides of a tier get a part") {
  const BudgetShares tier = split_offload_tier(Bytes{kGiB}, cost(0, 27'648), cost(0, 1'280));
  CHECK(tier.draft > Bytes{0});
  CHECK(tier.draft < Bytes{kGiB});
}

TEST_CASE("the split does not overflow near 2^62 bytes") {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const auto split = split_budget(Bytes{kHuge}, cost(0, kHuge), cost(0, kHuge));
  REQUIRE(split.shares.has_value());
  CHECK(*split.shares == shares(kHuge / 2, kHuge / 2));
  const auto refused = split_budget(Bytes{kHuge}, cost(kHuge, 1), cost(kHuge, 1));
  REQUIRE(refused.refusal.has_value());
  CHECK(refused.refusal->missing_bytes == Bytes{kHuge + 1});
}

TEST_CASE(
    "behaviours 33 and 34: an FP8 target leaves the draft's own format, cost and pool alike") {
  const auto target = test::own_config("kimi-k3");
  const auto drafter = test::own_config("dspark-mla-5x576");
  PlanRequest request;
  request.target = target.model;
  request.target.checkpoint_kv_dtype = KvDtype::kFp8E4m3;
  request.parallelism.tensor = 16;
  request.budget.kv_budget = Bytes{40 * kGiB};
  request.workload.max_model_len = Tokens{65'536};
  request.drafter = DrafterRequest{.kind = DrafterKind::kDspark, .model = drafter.model};
  const auto plan = make_plan(request, test::known());
  REQUIRE(plan.has_value());
  REQUIRE(plan->fits);
  CHECK(plan->request == request);
  const PoolDescriptor* pool = find_pool(*plan, PoolRole::kDraft);
  REQUIRE(pool != nullptr);
  CHECK(pool->groups[0].page.page_bytes.count() == 5'760 * 64);
  CHECK(pool->groups[0].page.planes[0].dtype == KvDtype::kBf16);
  CHECK(sequence_cost(pool->groups[0], {}).bytes_per_token.count() == 5'760);
  CHECK(find_pool(*plan, PoolRole::kTarget)->groups[0].page.planes[0].dtype == KvDtype::kFp8E4m3);
  // The same number of tokens in both pools, not half as many in the draft's.
  const std::int64_t in_target = find_pool(*plan, PoolRole::kTarget)->slabs.count() * 64;
  const std::int64_t in_draft = pool->slabs.count() * 64;
  CHECK(std::abs(in_target - in_draft) < 64 + 2'097'152 / 5'760 + 2'097'152 / 13'824 + 2);
}

TEST_CASE("behaviour 35: MTP layers have the target's format") {
  PlanRequest request;
  request.target = test::own_config("deepseek-v3").model;
  request.target.checkpoint_kv_dtype = KvDtype::kFp8E4m3;
  request.budget.kv_budget = Bytes{40 * kGiB};
  request.workload.max_model_len = Tokens{4096};
  request.drafter = DrafterRequest{.kind = DrafterKind::kMtp};
  const auto plan = make_plan(request, test::known());
  REQUIRE(plan.has_value());
  const PoolDescriptor* pool = find_pool(*plan, PoolRole::kDraft);
  REQUIRE(pool != nullptr);
  CHECK(pool->groups[0].page.planes[0].dtype == KvDtype::kFp8E4m3);
  CHECK(pool->groups[0].page.page_bytes.count() == 576 * 64);
}

TEST_CASE("behaviours 38 and 39: the cost charges the page that is allocated") {
  const auto target = test::own_config("qwen3-8b");
  const auto drafter = test::own_config("dspark-k3-96x16");
  for (const auto& [page, bytes] : {std::pair{64, 81'920}, std::pair{32, 40'960},
                                    std::pair{128, 40'960}, std::pair{16, 40'960}}) {
    INFO(page);
    test::Scenario s{.target = &target,
                     .drafter = DrafterKind::kDspark,
                     .drafter_config = &drafter,
                     .page = page,
                     .tp = 16};
    const auto plan = make_plan(test::request_of(s), test::known());
    REQUIRE(plan.has_value());
    const PoolDescriptor* pool = find_pool(*plan, PoolRole::kDraft);
    REQUIRE(pool != nullptr);
    CHECK(pool->groups[0].page.page_bytes.count() == bytes);
    CHECK(pool->groups[0].page.tokens_per_block.count() == (page == 64 ? 64 : 32));
    CHECK(sequence_cost(pool->groups[0], {}).bytes_per_token.count() == 1'280);
  }
}

}  // namespace kvpool
