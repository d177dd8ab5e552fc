// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/reference.hpp>

#include "kernels/planned_batch.hpp"
#include "support/catch.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace kvpool::test {
namespace {

using kernels::LogBase;

constexpr PageLayout kHnd{PageOrder::kPageMajor, RowOrder::kHnd};
constexpr PageLayout kNhd{PageOrder::kPageMajor, RowOrder::kNhd};
constexpr PageLayout kLayerMajorHnd{PageOrder::kLayerMajor, RowOrder::kHnd};
constexpr PageLayout kLayerMajorNhd{PageOrder::kLayerMajor, RowOrder::kNhd};
constexpr LayerIndex kLayer{1};

std::string fault(const Result<void>& result) {
  return result.has_value() ? std::string{} : to_string(result.error());
}

PoolId pool_named(const PoolSet& pools, const char* name) {
  const auto pool = pools.find(name);
  REQUIRE(pool.has_value());
  return *pool;
}

/// Appends everything, computes, compares with the oracle.
void check_batch(PlannedBatch& batch) {
  CHECK(fault(kernels::reference::append(batch.append_all())).empty());
  CHECK(batch.cache_difference().empty());
  CHECK(fault(kernels::reference::attention(batch.attention())).empty());
  CHECK(batch.difference().empty());
}

/// Lengths around pages, with one query each, several, or none.
SequencesShape mixed(std::int64_t page) {
  return {.lengths = {0, 1, page - 1, page, page + 1, 0, 2 * page + 3},
          .queries = {1, 1, 3, 1, 5, 0, 7}};
}

TEST_CASE("pages of every size, target and draft pools together, in every layout", "[kernels]") {
  const auto target_page =
      GENERATE(std::int64_t{16}, std::int64_t{32}, std::int64_t{64}, std::int64_t{128});
  const auto draft_page = GENERATE(std::int64_t{16}, std::int64_t{64}, std::int64_t{128});
  const auto layout = GENERATE(kHnd, kNhd, kLayerMajorHnd, kLayerMajorNhd);
  INFO(target_page << ", " << draft_page << ", " << to_string(layout));
  const PoolSet pools =
      make_pools({.draft = {.query_heads = 6, .kv_heads = 1, .key_dim = 32, .value_dim = 32},
                  .target_page = target_page,
                  .draft_page = draft_page,
                  .layout = layout});
  // Both are written before either is read.
  PlannedBatch target{pools, pool_named(pools, "target"), kLayer, mixed(target_page), 1};
  PlannedBatch draft{pools, pool_named(pools, "draft"), kLayer, mixed(draft_page), 2};
  CHECK(fault(kernels::reference::append(target.append_all())).empty());
  CHECK(fault(kernels::reference::append(draft.append_all())).empty());
  for (PlannedBatch* batch : {&target, &draft}) {
    CHECK(batch->cache_difference().empty());
    CHECK(fault(kernels::reference::attention(batch->attention())).empty());
    CHECK(batch->difference().empty());
  }
  // The other layer was not touched: reading it gives NaN.
  const auto other = kernels::cache_operands(pools, pool_named(pools, "target"), 0, LayerIndex{0});
  REQUIRE(other.has_value());
  kernels::AttentionParams params = target.attention();
  params.k = other->k;
  params.v = other->v;
  CHECK(kernels::reference::attention(params).has_value());
  // Of the first two rows, with one query each, one has no key; four heads of 64.
  CHECK(target.out()[0] == 0.0F);
  CHECK(std::isnan(target.out()[4 * 64]));
}

TEST_CASE("heads, dims and formats", "[kernels]") {
  const auto dtype = GENERATE(KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp32);
  const auto layout = GENERATE(kHnd, kNhd, kLayerMajorHnd);
  const auto shape = GENERATE(
      CacheShape{.query_heads = 4, .kv_heads = 4},                                     // MHA
      CacheShape{.query_heads = 8, .kv_heads = 1, .key_dim = 8, .value_dim = 8},       // MQA
      CacheShape{.query_heads = 6, .kv_heads = 2, .key_dim = 192, .value_dim = 128},   // K > V
      CacheShape{.query_heads = 6, .kv_heads = 3, .key_dim = 40, .value_dim = 104},    // K < V
      CacheShape{.query_heads = 2, .kv_heads = 1, .key_dim = 576, .value_dim = 576},   // longest
      CacheShape{.query_heads = 4, .key_dim = 576, .value_dim = 512, .latent = true},  // MLA
      CacheShape{.query_heads = 3, .key_dim = 80, .value_dim = 64, .latent = true});
  const PoolSet pools =
      make_pools({.target = shape, .target_page = 32, .dtype = dtype, .layout = layout});
  INFO(to_string(dtype) << ", " << to_string(layout) << ", " << shape.key_dim << "/"
                        << shape.value_dim);
  PlannedBatch batch{pools, pool_named(pools, "target"), kLayer, mixed(32), 3};
  CHECK(batch.cache().v_aliases_k == shape.latent);
  check_batch(batch);
}

TEST_CASE("masks: causal or not, windows of every size", "[kernels]") {
  const auto causal = GENERATE(true, false);
  // Smaller than a page, page +- 1, a multiple of it +- 1, longer than any sequence.
  const auto left = GENERATE(-1, 0, 5, 15, 16, 17, 31, 33, 1'000);
  const auto right = GENERATE(-1, 0, 1, 4, 1'000);
  const PoolSet pools = make_pools({.target_page = 16, .draft_page = 16});
  // More queries than the window holds, and more than there are tokens.
  PlannedBatch batch{pools,
                     pool_named(pools, "target"),
                     kLayer,
                     {.lengths = {40, 3, 16, 0, 33, 2},
                      .queries = {9, 3, 16, 2, 1, 5},
                      .causal = causal,
                      .window_left = left,
                      .window_right = right},
                     4};
  INFO("causal " << causal << ", window " << left << ", " << right);
  check_batch(batch);
}

TEST_CASE("softcap, sinks and both logarithms", "[kernels]") {
  const auto softcap = GENERATE(0.0F, 0.5F, 30.0F);
  const auto sinks = GENERATE(false, true);
  const auto base = GENERATE(LogBase::kTwo, LogBase::kNatural);
  const PoolSet pools = make_pools({.target_page = 16, .draft_page = 16});
  SequencesShape shape = mixed(16);
  shape.softcap = softcap;
  shape.sinks = sinks;
  shape.lse_base = base;
  PlannedBatch batch{pools, pool_named(pools, "draft"), kLayer, shape, 5};
  INFO("softcap " << softcap << ", sinks " << sinks);
  check_batch(batch);
}

TEST_CASE("one sequence of known numbers", "[kernels]") {
  // Two keys, logits 0 and ln 3: weights 1/4 and 3/4, values 1 and 5.
  alignas(16) std::array<float, 8> q = {1.0F};
  alignas(16) std::array<float, 16> k = {};
  alignas(16) std::array<float, 16> v = {};
  k[8] = std::log(3.0F);
  v[0] = 1.0F;
  v[8] = 5.0F;
  alignas(16) std::array<float, 8> out = {};
  float lse = 0.0F;
  const std::int32_t entry = 0;
  const std::int32_t length = 2;
  kernels::AttentionParams params;
  params.q = q.data();
  params.out = out.data();
  params.lse = &lse;
  params.table = {.entries = &entry,
                  .lengths = &length,
                  .row_stride_entries = 1,
                  .rows = 1,
                  .tokens_per_block = 2};
  params.k = {.base = k.data(),
              .entry_stride_bytes = 64,
              .head_stride_bytes = 0,
              .slot_stride_bytes = 32,
              .dim = 8,
              .type = kernels::ElementType::kFp32};
  params.v = params.k;
  params.v.base = v.data();
  params.tokens = params.max_query_tokens = params.query_heads = params.kv_heads = 1;
  params.q_type = params.out_type = kernels::ElementType::kFp32;

  REQUIRE(fault(kernels::reference::attention(params)).empty());
  CHECK(out[0] == Catch::Approx(4.0));
  CHECK(lse == Catch::Approx(2.0));  // log2(1 + 3)

  SECTION("scales fold into the logits and the values") {
    params.scale = 2.0F;
    params.k_scale = 0.5F;
    params.v_scale = 10.0F;
    REQUIRE(kernels::reference::attention(params).has_value());
    CHECK(out[0] == Catch::Approx(40.0));
    CHECK(lse == Catch::Approx(2.0));
  }
  SECTION("a sink of ln 4 takes half of the weight and none of the log-sum-exp") {
    const float sink = std::log(4.0F);
    params.sinks = &sink;
    REQUIRE(kernels::reference::attention(params).has_value());
    CHECK(out[0] == Catch::Approx(2.0));
    CHECK(lse == Catch::Approx(2.0));
  }
  SECTION("natural logarithm") {
    params.lse_base = LogBase::kNatural;
    REQUIRE(kernels::reference::attention(params).has_value());
    CHECK(lse == Catch::Approx(1.3862944));
  }
  SECTION("without tokens: 0 and -infinity, with a sink as well") {
    const float sink = 3.0F;
    const std::int32_t none = 0;
    params.sinks = &sink;
    params.table.lengths = &none;
    out.fill(7.0F);
    REQUIRE(kernels::reference::attention(params).has_value());
    CHECK(out == std::array<float, 8>{});
    CHECK(lse == -std::numeric_limits<float>::infinity());
  }
  SECTION("more than the table's row holds is an error, and so is a negative entry") {
    const std::int32_t three = 3;
    params.table.lengths = &three;
    CHECK(kernels::reference::attention(params).error().key == "table.lengths");
    const std::int32_t minus = -1;
    params.table.lengths = &length;
    params.table.entries = &minus;
    CHECK(kernels::reference::attention(params).error().key == "table.entries");
  }
}

TEST_CASE("appending one token at a time across page boundaries", "[kernels]") {
  const auto pages =
      GENERATE(std::array<std::int64_t, 2>{64, 64}, std::array<std::int64_t, 2>{128, 32});
  const PoolSet pools =
      make_pools({.target = {.query_heads = 2, .kv_heads = 1, .key_dim = 16, .value_dim = 16},
                  .draft = {.query_heads = 2, .kv_heads = 1, .key_dim = 16, .value_dim = 16},
                  .target_page = pages[0],
                  .draft_page = pages[1]});
  const std::int64_t longest = pages[0] + 3;
  const SequencesShape shape{.lengths = {longest, longest - 2}, .queries = {1, 1}};
  PlannedBatch target{pools, pool_named(pools, "target"), kLayer, shape, 6};
  PlannedBatch draft{pools, pool_named(pools, "draft"), kLayer, shape, 7};
  for (std::int64_t position = 0; position < longest; ++position) {
    for (PlannedBatch* batch : {&target, &draft}) {
      CHECK(fault(kernels::reference::append(batch->append_position(position))).empty());
      batch->set_lengths({position + 1, std::min(position + 1, longest - 2)}, 1);
      CHECK(fault(kernels::reference::attention(batch->attention())).empty());
      INFO("position " << position);
      CHECK(batch->difference().empty());
    }
  }
  CHECK(target.cache_difference().empty());
  CHECK(draft.cache_difference().empty());
}

TEST_CASE("rows of equal query tokens need no q_indptr", "[kernels]") {
  const PoolSet pools = make_pools({.target_page = 16, .draft_page = 16});
  PlannedBatch batch{pools,
                     pool_named(pools, "target"),
                     kLayer,
                     {.lengths = {20, 4, 33}, .queries = {4, 4, 4}},
                     8};
  CHECK(kernels::reference::append(batch.append_all()).has_value());
  kernels::AttentionParams params = batch.attention();
  params.q_indptr = nullptr;
  CHECK(fault(kernels::reference::attention(params)).empty());
  CHECK(batch.difference().empty());
}

TEST_CASE("contents that no kernel could check are errors of the reference", "[kernels]") {
  const PoolSet pools = make_pools({.target_page = 16, .draft_page = 16});
  PlannedBatch batch{
      pools, pool_named(pools, "target"), kLayer, {.lengths = {20, 4}, .queries = {2, 3}}, 9};
  kernels::AppendParams append = batch.append_all();
  std::vector<std::int64_t> slots(static_cast<std::size_t>(append.tokens), -2);
  append.slot_mapping = slots.data();
  CHECK(kernels::reference::append(append).error().key == "slot_mapping");
  kernels::AttentionParams params = batch.attention();
  const std::array<std::int32_t, 3> descending = {0, 6, 5};
  params.q_indptr = descending.data();
  CHECK(kernels::reference::attention(params).error().key == "q_indptr");
  const std::array<std::int32_t, 3> late = {1, 2, 5};
  params.q_indptr = late.data();
  CHECK(kernels::reference::attention(params).error().key == "q_indptr");
  params = batch.attention();
  params.max_query_tokens = 2;
  CHECK(kernels::reference::attention(params).error().key == "q_indptr");
}

}  // namespace
}  // namespace kvpool::test
