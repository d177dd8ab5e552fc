// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/kernel_capability.hpp>

#include "support/catch.hpp"
#include "unit/capability/kernel_rows.hpp"

namespace kvpool {
namespace {

using rows::k3_drafter;

KernelCapability fused_row() {
  KernelCapability row = rows::draft_row("fused", rows::one_of({64}));
  row.limits = {.family = AttentionFamily::kKeyValue,
                .head_dims = {64},
                .exact_head_ratio = 6,
                .kv_dtypes = {KvDtype::kBf16},
                .architectures = {"sm_100"},
                .masks = {AttentionMask::kNonCausal},
                .max_batch = 8,
                .max_query_tokens = 8};
  return row;
}

TEST_CASE("a row runs what is within its limits", "[capability]") {
  CHECK(why_not(fused_row(), k3_drafter()).empty());
  CHECK(why_not(fused_row(), k3_drafter(24, 4)).empty());
  CHECK(why_not(fused_row(), k3_drafter(96, 16)).empty());
  KernelQuery at_the_limits = k3_drafter();
  at_the_limits.batch = 8;
  at_the_limits.query_tokens = 8;
  CHECK(why_not(fused_row(), at_the_limits).empty());
}

TEST_CASE("a row says which limit it misses, and by what", "[capability]") {
  const KernelCapability row = fused_row();
  KernelQuery query = k3_drafter();
  SECTION("head ratio") {
    CHECK(why_not(row, k3_drafter(4, 1)) == "needs 6 query heads per KV head, has 4 (4/1)");
    CHECK(why_not(row, k3_drafter(64, 16)) == "needs 6 query heads per KV head, has 4 (64/16)");
    CHECK(why_not(row, k3_drafter(64, 15)) == "needs 6 query heads per KV head, has 64/15");
  }
  SECTION("head dim") {
    query.head_dim = 128;
    CHECK(why_not(row, query) == "needs head dim 64, has 128");
  }
  SECTION("architecture") {
    query.architecture = "sm_90";
    CHECK(why_not(row, query) == "needs sm_100, this is sm_90");
  }
  SECTION("kind of cache") {
    query.family = AttentionFamily::kLatent;
    CHECK(why_not(row, query) == "reads a key_value cache, this is latent");
  }
  SECTION("format") {
    query.kv_dtype = KvDtype::kFp8E4m3;
    CHECK(why_not(row, query) == "needs a bf16 cache, this is fp8_e4m3");
  }
  SECTION("mask") {
    query.mask = AttentionMask::kCausal;
    CHECK(why_not(row, query) == "needs a non_causal mask, this is causal");
  }
  SECTION("batch") {
    query.batch = 9;
    CHECK(why_not(row, query) == "takes up to 8 requests, has 9");
  }
  SECTION("query tokens") {
    query.query_tokens = 9;
    CHECK(why_not(row, query) == "takes up to 8 query tokens, has 9");
  }
  SECTION("whom it serves") {
    query.user = PoolUser::kMtp;
    CHECK(why_not(row, query) == "serves dflash or dspark, not mtp");
  }
}

TEST_CASE("further limits of rows", "[capability]") {
  KernelCapability row = rows::draft_row("row", PageSizeRule{});
  SECTION("largest head ratio") {
    row.limits.max_head_ratio = 32;
    CHECK(why_not(row, k3_drafter(32, 1)).empty());
    CHECK(why_not(row, k3_drafter(33, 1)) ==
          "takes up to 32 query heads per KV head, has 33 (33/1)");
    CHECK(why_not(row, k3_drafter(65, 2)) == "takes up to 32 query heads per KV head, has 65/2");
  }
  SECTION("head dims that it cannot run") {
    row.limits.excluded_head_dims = {72, 80, 96};
    KernelQuery query = k3_drafter();
    CHECK(why_not(row, query).empty());
    query.head_dim = 96;
    CHECK(why_not(row, query) == "cannot run head dim 96");
  }
  SECTION("model families") {
    row.model_families = {"kimi_k3", "kimi_linear"};
    KernelQuery query = k3_drafter();
    query.model_family = "kimi_linear";
    CHECK(why_not(row, query).empty());
    query.model_family = "llama";
    CHECK(why_not(row, query) == "is for kimi_k3 or kimi_linear, this is llama");
    query.model_family = "";
    CHECK(why_not(row, query) == "is for kimi_k3 or kimi_linear, this is another model");
  }
}

TEST_CASE("what is not known matches", "[capability]") {
  KernelQuery query = k3_drafter();
  query.architecture = "";
  query.head_dim = 0;
  query.query_heads = Heads{0};
  query.kv_heads = Heads{0};
  query.batch.reset();
  query.query_tokens.reset();
  CHECK(why_not(fused_row(), query).empty());
}

TEST_CASE("hostile head counts do not overflow", "[capability]") {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  CHECK_FALSE(why_not(fused_row(), k3_drafter(kHuge, kHuge)).empty());
  CHECK_FALSE(why_not(fused_row(), k3_drafter(1, kHuge)).empty());
}

TEST_CASE("enumerators have stable names", "[capability]") {
  CHECK(to_string(PoolUser::kDraftTarget) == "draft_target");
  CHECK(to_string(PoolUser::kEagle3) == "eagle3");
  CHECK(to_string(KernelRole::kDraftBlock) == "draft_block");
  CHECK(to_string(AttentionMask::kNonCausal) == "non_causal");
  CHECK(to_string(AttentionFamily::kKeyValue) == "key_value");
  CHECK(to_string(Necessity::kPreferred) == "preferred");
  CHECK(to_string(Evidence::kTestedHere) == "tested_here");
}

}  // namespace
}  // namespace kvpool
