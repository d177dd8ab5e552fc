// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/capability_registry.hpp>

#include "support/catch.hpp"
#include "unit/capability/kernel_rows.hpp"

namespace kvpool {
namespace {

using Catch::Matchers::ContainsSubstring;
using rows::gqa_target;
using rows::ids;
using rows::mla_target;
using rows::one_of;
using rows::registry_with;
using rows::target_row;
using rows::verdict_of;
using Ids = std::vector<std::string>;

PageSizeChoice decide(const PageSizeQuestion& question, std::vector<KernelCapability> more = {}) {
  const PageSizeChoice choice = decide_target_page(registry_with(std::move(more)), question);
  CHECK(choice.tokens_per_block.has_value() != choice.refusal.has_value());
  return choice;
}

TEST_CASE("the target's page is 64 by default, as a decision", "[capability]") {
  for (const auto* architecture : {"sm_90", "sm_100", "sm_120", ""}) {
    const PageSizeChoice choice = decide({.query = gqa_target(architecture)});
    CHECK(choice.tokens_per_block == Tokens{64});
    CHECK(choice.decision.id == "target_page_size");
    CHECK(choice.decision.pool == "target");
    CHECK(choice.decision.chosen == "64");
    CHECK(choice.decision.instead_of.empty());
    CHECK(choice.decision.reason == "the default; no required row runs here");
    CHECK(choice.losses.empty());
  }
}

TEST_CASE("an explicit page of a GQA target is kept, on Blackwell and Hopper alike",
          "[capability]") {
  const auto page = GENERATE(8, 16, 48, 64, 128, 256);
  const auto* const architecture = GENERATE("sm_90", "sm_100");
  const PageSizeChoice choice =
      decide({.query = gqa_target(architecture), .explicit_page = Tokens{page}},
             {target_row("mine", PageSizeRule{})});
  CHECK(choice.tokens_per_block == Tokens{page});
  CHECK(choice.decision.reason == "asked for; every required row accepts it");
  CHECK(verdict_of(choice.decision.verdicts, "mine") == "accepts " + std::to_string(page));
}

TEST_CASE("an explicit page that costs a preferred kernel says so", "[capability]") {
  const PageSizeChoice choice =
      decide({.query = gqa_target("sm_100"), .explicit_page = Tokens{48}});
  CHECK(choice.tokens_per_block == Tokens{48});
  REQUIRE(ids(choice.losses) == Ids{"preferred_kernel_lost", "preferred_kernel_lost"});
  CHECK(choice.losses.front().pool == "target");
  CHECK(choice.losses.front().chosen == "48");
  CHECK(choice.losses.front().instead_of == "64");
  CHECK(choice.losses.front().reason ==
        "trtllm_gen_gqa_decode accepts {16, 32, 64} and would have run at a page of 64 tokens");
  CHECK(choice.losses.front().cost.conditions == "unknown: no measurement is known");
  CHECK(decide({.query = gqa_target("sm_90"), .explicit_page = Tokens{48}}).losses.empty());
}

TEST_CASE("an MLA target with pages of 64 is kept on Hopper and Blackwell", "[capability]") {
  const auto* const architecture = GENERATE("sm_90", "sm_100", "sm_103", "");
  const auto* const family =
      GENERATE("deepseek_v3", "deepseek_v32", "glm_moe_dsa", "kimi_linear", "kimi_k2");
  const auto dtype = GENERATE(KvDtype::kBf16, KvDtype::kFp8E4m3, KvDtype::kFp8DsMla);
  const KernelQuery query = mla_target(architecture, dtype, family);
  CHECK(decide({.query = query}).tokens_per_block == Tokens{64});
  const PageSizeChoice asked = decide({.query = query, .explicit_page = Tokens{64}});
  CHECK(asked.tokens_per_block == Tokens{64});
  CHECK(asked.losses.empty());
}

TEST_CASE("FlashMLA on Hopper refuses every page but 64", "[capability]") {
  const auto page = GENERATE(16, 32, 128);
  const PageSizeChoice choice =
      decide({.query = mla_target("sm_90"), .explicit_page = Tokens{page}},
             {target_row("mine", PageSizeRule{})});
  REQUIRE(choice.refusal.has_value());
  CHECK(choice.refusal->id == "target_page_size");
  CHECK(choice.refusal->what ==
        "a page of " + std::to_string(page) + " tokens is refused by flashmla_sm90 ({64})");
  CHECK(choice.refusal->accepted == Ids{"64"});
  CHECK(choice.refusal->least_that_works == "--page-size 64");
  CHECK(verdict_of(choice.refusal->verdicts, "mine") == "accepts " + std::to_string(page));
}

TEST_CASE("a row of certain GPUs does not bind while the GPU is unknown", "[capability]") {
  const PageSizeChoice choice = decide({.query = mla_target(""), .explicit_page = Tokens{32}});
  CHECK(choice.tokens_per_block == Tokens{32});
  CHECK(verdict_of(choice.decision.verdicts, "flashmla_sm90") == "refuses 32, if the GPU is sm_90");
}

TEST_CASE("FP4 MLA forces pages of 128", "[capability]") {
  const auto* const architecture = GENERATE("sm_90", "sm_100", "sm_103", "");
  const KernelQuery query = mla_target(architecture, KvDtype::kFp4Mla);
  const PageSizeChoice choice = decide({.query = query});
  CHECK(choice.tokens_per_block == Tokens{128});
  CHECK(choice.decision.instead_of == "64");
  CHECK(choice.decision.reason ==
        "the default of 64 is refused by fp4_mla ({128}); every required row and the model's own "
        "kernels accept 128");
  CHECK(choice.losses.empty());
  CHECK(decide({.query = query, .explicit_page = Tokens{128}}).tokens_per_block == Tokens{128});
  CHECK(decide({.query = query, .explicit_page = Tokens{64}}).refusal->accepted == Ids{"128"});
}

TEST_CASE("FP4 MLA wins over the page that a sparse model's indexer prefers", "[capability]") {
  const PageSizeChoice choice =
      decide({.query = mla_target("sm_100", KvDtype::kFp4Mla, "deepseek_v32")});
  CHECK(choice.tokens_per_block == Tokens{128});
  // No page suits both: nothing was lost by this choice.
  CHECK(choice.losses.empty());
}

TEST_CASE("MiniMax-M3's sparse attention forces pages of 128 on Blackwell", "[capability]") {
  KernelQuery query = gqa_target("sm_100");
  query.model_family = "minimax_m3";
  const PageSizeChoice choice = decide({.query = query});
  CHECK(choice.tokens_per_block == Tokens{128});
  CHECK(choice.losses.empty());
  query.architecture = "sm_90";
  CHECK(decide({.query = query}).tokens_per_block == Tokens{64});
}

TEST_CASE("Kimi-K3 with another page loses its fused path", "[capability]") {
  const PageSizeChoice choice = decide(
      {.query = mla_target("sm_100", KvDtype::kBf16, "kimi_linear"), .explicit_page = Tokens{32}});
  CHECK(choice.tokens_per_block == Tokens{32});
  REQUIRE_FALSE(choice.losses.empty());
  CHECK(verdict_of(choice.losses.front().verdicts, "kimi_k3_fused_attention") ==
        "refuses 32 (preferred)");
}

TEST_CASE("a model's own preferred kernel moves the default, a general one does not",
          "[capability]") {
  KernelCapability own = target_row("own", one_of({128}));
  own.necessity = Necessity::kPreferred;
  own.model_families = {"llama"};
  const PageSizeChoice moved = decide({.query = gqa_target("sm_90")}, {own});
  CHECK(moved.tokens_per_block == Tokens{128});
  CHECK(moved.decision.instead_of == "64");
  KernelCapability general = own;
  general.model_families = {};
  CHECK(decide({.query = gqa_target("sm_90")}, {general}).tokens_per_block == Tokens{64});
  // A required row comes first.
  CHECK(decide({.query = gqa_target("sm_90")}, {own, target_row("must", one_of({16, 64}))})
            .tokens_per_block == Tokens{64});
}

TEST_CASE("required rows move the default to the nearest size that all accept", "[capability]") {
  const auto query = gqa_target("sm_90");
  CHECK(decide({.query = query}, {target_row("a", one_of({16, 32, 128}))}).tokens_per_block ==
        Tokens{32});
  CHECK(decide({.query = query}, {target_row("a", one_of({32, 96}))}).tokens_per_block ==
        Tokens{32});
  CHECK(decide({.query = query}, {target_row("a", one_of({16, 256})),
                                  target_row("b", PageSizeRule{PageSizeRule::MultiplesOf{128}})})
            .tokens_per_block == Tokens{256});
}

TEST_CASE("target rows without a common size are refused, with the row to drop", "[capability]") {
  const PageSizeChoice choice =
      decide({.query = mla_target("sm_90")}, {target_row("only_32", one_of({32}))});
  REQUIRE(choice.refusal.has_value());
  CHECK(choice.refusal->accepted.empty());
  CHECK(choice.refusal->what ==
        "the default page of 64 tokens is refused by only_32 ({32}); no "
        "size suits every required row");
  CHECK(choice.refusal->least_that_works == "--page-size 64, without the rows only_32");
}

TEST_CASE("impossible explicit pages are refused", "[capability]") {
  const auto page =
      GENERATE(std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min());
  const PageSizeChoice choice =
      decide({.query = gqa_target("sm_90"), .explicit_page = Tokens{page}});
  REQUIRE(choice.refusal.has_value());
  CHECK(choice.refusal->accepted == Ids{"any"});
}

TEST_CASE("the bundled kernel set is refused where its rows are missing", "[capability]") {
  const PageSizeChoice choice =
      decide({.query = gqa_target("sm_90"), .kernel_set = KernelSet::kKvpool});
  REQUIRE(choice.refusal.has_value());
  CHECK(choice.refusal->id == "kernel_set");
  CHECK_THAT(choice.refusal->what, ContainsSubstring("target_decode and append of target"));
}

}  // namespace
}  // namespace kvpool
