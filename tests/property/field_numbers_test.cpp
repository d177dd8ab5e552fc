// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Figures that engines print or that their users measured, through the API. All literals.
#include <kvpool/layout/pool_descriptor.hpp>
#include <kvpool/memory/simulated_memory.hpp>
#include <kvpool/pool/pool_set.hpp>

#include "scenario.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

namespace kvpool {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// The field's draft pool: Kimi-K3's DSpark drafter of 96/16 heads at TP16, pages of 64.
PoolDescriptor field_pool(std::int64_t reserved) {
  const auto drafter = test::own_config("dspark-k3-96x16");
  const auto layers = layer_geometry(drafter.model.layers, {.tensor = 16}, {});
  REQUIRE(layers.has_value());
  auto pool = describe_pool({.name = "draft",
                             .role = PoolRole::kDraft,
                             .groups = group_layers(*layers),
                             .tokens_per_block = Tokens{64},
                             .layout = {},
                             .granularity = Bytes{2'097'152},
                             .reserved_slabs = Slabs{reserved}});
  REQUIRE(pool.has_value());
  pool->slabs = Slabs{45'440};
  pool->groups.at(0).planned_slabs = pool->slabs;
  return *std::move(pool);
}

std::int64_t held_by(const PoolDescriptor& pool) {
  SimulatedMemory memory;
  const auto set = PoolSet::create(std::vector{pool}, AnyPageMemory{memory});
  REQUIRE(set.has_value());
  CHECK(set->ledger()[0].charged == set->ledger()[0].held);
  return memory.held().count();
}

Plan planned(const PlanRequest& request) {
  auto plan = make_plan(request, test::known());
  REQUIRE(plan.has_value());
  for (const Refusal& refusal : plan->refusals) {
    INFO(refusal.id << ": " << refusal.what);
    CHECK(plan->refusals.empty());
  }
  REQUIRE_FALSE(plan->ranks.empty());
  return *std::move(plan);
}

PlanRequest request_for(const std::string& target, std::int64_t tp) {
  PlanRequest request;
  request.target = test::own_config(target).model;
  request.parallelism.tensor = tp;
  request.budget.kv_budget = Bytes{64 * kGiB};
  request.workload.max_model_len = Tokens{4096};
  return request;
}

const PoolDescriptor& pool_of(const Plan& plan, PoolRole role) {
  for (const PoolDescriptor& pool : plan.ranks.at(0).pools) {
    if (pool.role == role) {
      return pool;
    }
  }
  FAIL("no such pool");
  return plan.ranks.at(0).pools.at(0);
}

/// Bytes of one token over all layers of a pool with one group.
std::int64_t bytes_a_token(const PoolDescriptor& pool) {
  REQUIRE(pool.groups.size() == 1);
  const PageGeometry& page = pool.groups[0].page;
  CHECK(page.page_bytes.count() % page.tokens_per_block.count() == 0);
  return page.page_bytes.count() / page.tokens_per_block.count();
}

/// The same, of planes of some kinds only.
std::int64_t bytes_a_token(const PoolDescriptor& pool, std::vector<PlaneKind> kinds) {
  std::int64_t sum = 0;
  for (const PlaneGeometry& plane : pool.groups.at(0).page.planes) {
    if (std::ranges::find(kinds, plane.kind) != kinds.end()) {
      sum += plane.bytes.count();
    }
  }
  return sum / pool.groups[0].page.tokens_per_block.count();
}

}  // namespace

TEST_CASE("45,440 pages of the K3 DSpark pool without a guard page") {
  const PoolDescriptor pool = field_pool(0);
  CHECK(pool.groups[0].page.page_bytes.count() == 81'920);
  CHECK(pool.unit_bytes.count() == 81'920);
  CHECK(pool.slab_bytes.count() == 81'920);
  CHECK(pool.bytes().count() == 3'722'444'800);
  CHECK(pool.charged_bytes().count() == 3'722'444'800);
  CHECK(pool.charged_bytes().count() / 2'097'152 == 1'775);
  CHECK(held_by(pool) == 3'722'444'800);
  const auto views = views_of(pool, 0);
  REQUIRE(views.size() == 5);
  for (std::size_t layer = 0; layer < views.size(); ++layer) {
    CHECK(views[layer].shape == Numbers{45'440, 2, 1, 64, 64});
    CHECK(views[layer].strides == Numbers{81'920, 8'192, 8'192, 128, 2});
    CHECK(views[layer].offset.count() == static_cast<std::int64_t>(layer) * 16'384);
    CHECK(views[layer].dtype == KvDtype::kBf16);
    CHECK(views[layer].kind == PlaneKind::kKey);
  }
}

TEST_CASE("45,440 pages of the K3 DSpark pool behind the default guard page") {
  CHECK(PlanRequest{}.reserved_pages == 1);
  const PoolDescriptor pool = field_pool(1);
  CHECK(pool.bytes().count() == 3'722'526'720);
  CHECK(pool.charged_bytes().count() == 3'724'541'952);
  CHECK(held_by(pool) == 3'724'541'952);
  const auto views = views_of(pool, 0);
  REQUIRE(views.size() == 5);
  for (const TensorView& view : views) {
    CHECK(view.shape == Numbers{45'441, 2, 1, 64, 64});
    CHECK(view.strides.at(0) == 81'920);
  }
}

TEST_CASE("bytes a token of Kimi-K3 and its drafters") {
  const auto gqa = test::own_config("dspark-k3-96x16");
  const auto mla = test::own_config("dspark-mla-5x576");
  PlanRequest request = request_for("kimi-k3", 8);
  request.drafter = DrafterRequest{.kind = DrafterKind::kDspark, .model = gqa.model};

  CHECK(bytes_a_token(pool_of(planned(request), PoolRole::kTarget)) == 27'648);
  CHECK(bytes_a_token(pool_of(planned(request), PoolRole::kDraft)) == 2'560);

  request.parallelism.tensor = 16;
  CHECK(bytes_a_token(pool_of(planned(request), PoolRole::kDraft)) == 1'280);

  request.parallelism.attention_data_parallel = true;
  CHECK(bytes_a_token(pool_of(planned(request), PoolRole::kTarget)) == 27'648);
  CHECK(bytes_a_token(pool_of(planned(request), PoolRole::kDraft)) == 20'480);

  for (const std::int64_t tp : {1, 8, 16}) {
    request.parallelism = {.tensor = tp};
    request.drafter->model = mla.model;
    CHECK(bytes_a_token(pool_of(planned(request), PoolRole::kDraft)) == 5'760);
  }
  // The target's FP8 does not make the draft pool cheaper; asked for, it costs 2,880.
  request.kv_dtype = KvDtype::kFp8E4m3;
  CHECK(bytes_a_token(pool_of(planned(request), PoolRole::kTarget)) == 13'824);
  CHECK(bytes_a_token(pool_of(planned(request), PoolRole::kDraft)) == 5'760);
  request.drafter->kv_dtype = KvDtype::kFp8E4m3;
  CHECK(bytes_a_token(pool_of(planned(request), PoolRole::kDraft)) == 2'880);
}

TEST_CASE("the private arena that a pool replaces") {
  const auto gqa = test::own_config("dspark-k3-96x16");
  const auto layers = layer_geometry(gqa.model.layers, {.tensor = 8}, {});
  REQUIRE(layers.has_value());
  const auto page = page_geometry(group_layers(*layers).at(0), Tokens{32}, {});
  REQUIRE(page.has_value());
  CHECK(private_arena_bytes(*page, 9, Tokens{997'696 + 8}).count() == 22'987'653'120);
  // 64 context + 8 block tokens of 2 requests and the scratch slot: 9 pages.
  CHECK(private_arena_bytes(*page, 3, Tokens{72}).count() == 9 * page->page_bytes.count());

  // In the plan, for comparison: 8 sequences and the scratch slot, no position cap.
  PlanRequest request = request_for("kimi-k3", 8);
  request.workload.max_model_len = Tokens{997'696};
  request.workload.max_num_seqs = Sequences{8};
  request.drafter = DrafterRequest{
      .kind = DrafterKind::kDspark, .model = gqa.model, .num_draft_tokens = Tokens{8}};
  request.drafter->model->max_positions.reset();
  const auto plan = make_plan(request, test::known());
  REQUIRE(plan.has_value());
  CHECK(plan->private_arena == Bytes{22'987'653'120});
}

TEST_CASE("FP4 MLA takes 392 bytes a token and layer, and a tail per sequence") {
  PlanRequest request = request_for("deepseek-v3", 8);
  request.kv_dtype = KvDtype::kFp4Mla;
  const Plan plan = planned(request);
  const PoolDescriptor& target = pool_of(plan, PoolRole::kTarget);
  CHECK(target.groups.at(0).page.tokens_per_block.count() == 128);
  CHECK(bytes_a_token(target) == 61 * 392);
  const PoolDescriptor& tail = pool_of(plan, PoolRole::kState);
  CHECK(tail.slab_bytes.count() == 61 * (16 + 0) * 576 * 2);
  // Seven draft tokens may be rejected.
  const auto mla = test::own_config("dspark-mla-5x576");
  request.drafter = DrafterRequest{.kind = DrafterKind::kDspark, .model = mla.model};
  CHECK(pool_of(planned(request), PoolRole::kState).slab_bytes.count() == 61 * (16 + 7) * 576 * 2);
}

TEST_CASE("DeepSeek-V3.2 with its indexer") {
  PlanRequest request = request_for("deepseek-v3.2", 8);
  request.kv_dtype = KvDtype::kFp8DsMla;
  const Plan record = planned(request);
  CHECK(bytes_a_token(pool_of(record, PoolRole::kTarget)) == 48'068);
  CHECK(bytes_a_token(pool_of(record, PoolRole::kTarget),
                      {PlaneKind::kLatent, PlaneKind::kLatentScales}) == 40'016);
  request.kv_dtype = KvDtype::kFp8E4m3;
  const Plan plain = planned(request);
  CHECK(bytes_a_token(pool_of(plain, PoolRole::kTarget)) == 43'188);
  CHECK(bytes_a_token(pool_of(plain, PoolRole::kTarget),
                      {PlaneKind::kLatent, PlaneKind::kLatentScales}) == 35'136);
}

TEST_CASE("GLM-5 with its indexer") {
  for (const std::int64_t tp : {1, 8}) {
    CHECK(bytes_a_token(pool_of(planned(request_for("glm-5", tp)), PoolRole::kTarget)) == 100'152);
  }
}

TEST_CASE("KV heads are rounded up on a rank, in the charge as in the allocation") {
  // 2 KV heads at TP8: one a rank, and not a quarter. 8 layers of 128 elements, K and V, bf16.
  const Plan plan = planned(request_for("nemotron-3-super", 8));
  const PoolDescriptor& pool = pool_of(plan, PoolRole::kTarget);
  CHECK(bytes_a_token(pool) == 8 * 2 * 128 * 2);
  CHECK(held_by(pool) == pool.charged_bytes().count());
  CHECK(plan.ranks.at(0).accounts.at(0).charged == pool.charged_bytes());
  for (const TensorView& view : views_of(pool, 0)) {
    CHECK(view.shape.at(2) == 1);
  }
  // 4 KV heads at TP 8 and 16 the same; at TP 1 four.
  CHECK(bytes_a_token(pool_of(planned(request_for("qwen2.5-7b", 8)), PoolRole::kTarget)) ==
        28 * 2 * 128 * 2);
  CHECK(bytes_a_token(pool_of(planned(request_for("qwen2.5-7b", 1)), PoolRole::kTarget)) ==
        28 * 4 * 2 * 128 * 2);
}

}  // namespace kvpool
