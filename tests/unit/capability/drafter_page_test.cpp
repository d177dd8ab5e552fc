// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/capability_registry.hpp>

#include "support/catch.hpp"
#include "unit/capability/kernel_rows.hpp"

namespace kvpool {
namespace {

using Catch::Matchers::ContainsSubstring;
using rows::draft_row;
using rows::ids;
using rows::k3_drafter;
using rows::one_of;
using rows::registry_with;
using rows::verdict_of;
using Ids = std::vector<std::string>;

PageSizeChoice decide(const PageSizeQuestion& question, std::int64_t target_page,
                      std::vector<KernelCapability> more = {}) {
  const PageSizeChoice choice =
      decide_drafter_page(registry_with(std::move(more)), question, Tokens{target_page});
  CHECK(choice.tokens_per_block.has_value() != choice.refusal.has_value());
  return choice;
}

TEST_CASE("DFlash and DSpark follow the page table whatever their shape and GPU", "[capability]") {
  const auto [target, draft] = GENERATE(table<std::int64_t, std::int64_t>(
      {{64, 64}, {32, 32}, {8, 32}, {16, 32}, {48, 32}, {128, 32}, {256, 32}}));
  for (const PoolUser user : {PoolUser::kDflash, PoolUser::kDspark}) {
    for (const auto* architecture : {"sm_90", "sm_100", ""}) {
      for (const AttentionFamily family : {AttentionFamily::kKeyValue, AttentionFamily::kLatent}) {
        KernelQuery query = k3_drafter();
        query.user = user;
        query.architecture = architecture;
        query.family = family;
        query.kv_dtype = KvDtype::kFp16;
        CHECK(decide({.query = query}, target).tokens_per_block == Tokens{draft});
      }
    }
  }
}

TEST_CASE("a 64-token target keeps the fused drafter kernel", "[capability]") {
  const PageSizeChoice choice = decide({.query = k3_drafter()}, 64);
  CHECK(choice.tokens_per_block == Tokens{64});
  CHECK(choice.losses.empty());
  CHECK(verdict_of(choice.decision.verdicts, "k3_drafter_attn_qknorm") == "accepts 64 (preferred)");
}

TEST_CASE("a 32-token draft page under a 64-token target loses the fused kernel, at its cost",
          "[capability]") {
  const PageSizeChoice choice = decide({.query = k3_drafter(), .explicit_page = Tokens{32}}, 64);
  CHECK(choice.tokens_per_block == Tokens{32});
  CHECK(choice.decision.instead_of == "64");
  CHECK(ids(choice.losses) == Ids{"preferred_kernel_lost", "preferred_kernel_lost"});
  const Decision& lost = choice.losses.at(0);
  CHECK(lost.pool == "draft");
  CHECK(lost.chosen == "32");
  CHECK(lost.instead_of == "64");
  CHECK(lost.reason ==
        "k3_drafter_attn_qknorm accepts {64} and would have run at the target's page of 64 tokens");
  CHECK(lost.cost.value == 306);
  CHECK(lost.cost.unit == "us_per_step");
  CHECK(lost.cost.conditions ==
        "GPU work per step; 257 us end to end at batch 1; Kimi-K3 TP16, DSpark 7 drafts, GB200");
  CHECK(lost.verdicts == std::vector<Verdict>{{.row = "k3_drafter_attn_qknorm",
                                               .accepts = "{64}",
                                               .verdict = "refuses 32 (preferred)"}});
  CHECK_THAT(choice.losses.at(1).reason, ContainsSubstring("k3_drafter_attn accepts {64}"));
  CHECK_THAT(choice.losses.at(1).cost.conditions, ContainsSubstring("unknown"));
}

TEST_CASE("the fused kernel is not lost where it would not have run", "[capability]") {
  PageSizeQuestion question{.query = k3_drafter(), .explicit_page = Tokens{32}};
  SECTION("64/16 heads") {
    question.query = k3_drafter(4, 1);
    const PageSizeChoice choice = decide(question, 64);
    CHECK(choice.losses.empty());
    CHECK(verdict_of(choice.decision.verdicts, "k3_drafter_attn_qknorm") ==
          "would not run: needs 6 query heads per KV head, has 4 (4/1)");
  }
  SECTION("Hopper") {
    question.query.architecture = "sm_90";
    CHECK(decide(question, 64).losses.empty());
  }
  SECTION("head dim 128") {
    question.query.head_dim = 128;
    CHECK(decide(question, 64).losses.empty());
  }
  SECTION("nine requests") {
    question.query.batch = 9;
    CHECK(decide(question, 64).losses.empty());
  }
  SECTION("a target page that it does not read either") {
    CHECK(decide(question, 128).losses.empty());
    question.explicit_page.reset();
    CHECK(decide(question, 128).losses.empty());
    CHECK(decide(question, 32).losses.empty());
  }
}

TEST_CASE("a loss that hangs on an unknown GPU is one line with a condition", "[capability]") {
  PageSizeQuestion question{.query = k3_drafter(), .explicit_page = Tokens{32}};
  question.query.architecture = "";
  const PageSizeChoice choice = decide(question, 64);
  REQUIRE(ids(choice.losses) == Ids{"preferred_kernel_unknown"});
  const Decision& unknown = choice.losses.front();
  CHECK(unknown.reason ==
        "the GPU is not stated: k3_drafter_attn_qknorm accepts {64} and would have run at the "
        "target's page of 64 tokens, if the GPU is sm_100; k3_drafter_attn accepts {64} and would "
        "have run at the target's page of 64 tokens, if the GPU is sm_100");
  CHECK(unknown.cost.value == 0);
  CHECK(unknown.verdicts.size() == 2);
  CHECK(verdict_of(unknown.verdicts, "k3_drafter_attn") ==
        "refuses 32 (preferred), if the GPU is sm_100");
  // A row that any GPU runs is lost whatever the GPU.
  KernelCapability anywhere = draft_row("anywhere", one_of({64}));
  anywhere.necessity = Necessity::kPreferred;
  CHECK(ids(decide(question, 64, {anywhere}).losses) ==
        Ids{"preferred_kernel_unknown", "preferred_kernel_lost"});
}

TEST_CASE("an explicit draft page is kept when every required row accepts it", "[capability]") {
  PageSizeQuestion question{.query = k3_drafter(), .explicit_page = Tokens{64}};
  const PageSizeChoice kept = decide(question, 128);
  CHECK(kept.tokens_per_block == Tokens{64});
  CHECK(kept.decision.instead_of == "32");
  CHECK(kept.decision.reason == "asked for; every required row accepts it");
  CHECK(decide(question, 64).decision.instead_of.empty());
}

TEST_CASE("an explicit draft page that a required row refuses is refused", "[capability]") {
  const auto wanted = GENERATE(std::int64_t{16}, std::int64_t{128}, std::int64_t{48});
  const PageSizeChoice choice =
      decide({.query = k3_drafter(), .explicit_page = Tokens{wanted}}, 64);
  REQUIRE(choice.refusal.has_value());
  CHECK(choice.refusal->id == "draft_page_size");
  CHECK(choice.refusal->accepted == Ids{"32", "64"});
  CHECK_THAT(choice.refusal->what, ContainsSubstring("a draft page of"));
  CHECK_THAT(choice.refusal->what, ContainsSubstring("dspark_mla_trtllm_gen ({32, 64})"));
}

TEST_CASE("a draft page below 1 is refused", "[capability]") {
  CHECK(decide({.query = k3_drafter(), .explicit_page = Tokens{0}}, 64).refusal.has_value());
  CHECK(decide({.query = k3_drafter()}, 0).refusal.has_value());
}

TEST_CASE("a user's required row for 64 only binds", "[capability]") {
  const KernelCapability only_64 = draft_row("only_64", one_of({64}));
  CHECK(decide({.query = k3_drafter()}, 64, {only_64}).tokens_per_block == Tokens{64});
  for (const std::int64_t target : {32, 128}) {
    const PageSizeChoice choice = decide({.query = k3_drafter()}, target, {only_64});
    REQUIRE(choice.refusal.has_value());
    CHECK(choice.refusal->accepted == Ids{"64"});
    CHECK(choice.refusal->verdicts.size() == rows::known_draft_rows().size() + 1);
  }
}

TEST_CASE("a user's append row binds the draft pool, too", "[capability]") {
  KernelCapability append = draft_row("append", one_of({64}));
  append.role = KernelRole::kAppend;
  CHECK(decide({.query = k3_drafter()}, 32, {append}).refusal.has_value());
}

TEST_CASE("the exact kernel set asks the rows that run here, as a decision", "[capability]") {
  PageSizeQuestion question{.query = k3_drafter(), .kernel_set = KernelSet::kExact};
  // A GQA drafter on Blackwell: only {16, 32, 64} binds.
  const PageSizeChoice choice = decide(question, 16);
  CHECK(choice.tokens_per_block == Tokens{16});
  REQUIRE(ids(choice.losses) == Ids{"kernel_set"});
  const Decision& narrowed = choice.losses.front();
  CHECK(narrowed.pool == "draft");
  CHECK(narrowed.chosen == "exact");
  CHECK(narrowed.instead_of == "trtllm");
  CHECK(narrowed.reason == "asked for: 3 of 8 rows run on this deployment");
  CHECK(verdict_of(narrowed.verdicts, "dflash_gqa_trtllm_gen") == "runs");
  CHECK(verdict_of(narrowed.verdicts, "dspark_mla_trtllm_gen") ==
        "would not run: reads a latent cache, this is key_value");
  CHECK(decide(question, 128).tokens_per_block == Tokens{32});
}

TEST_CASE("the exact kernel set of an MLA drafter", "[capability]") {
  KernelQuery query = rows::mla_target("sm_100");
  query.user = PoolUser::kDspark;
  query.query_tokens = 4;
  const PageSizeQuestion question{.query = query, .kernel_set = KernelSet::kExact};
  CHECK(decide(question, 16).tokens_per_block == Tokens{32});
  CHECK(decide(question, 64).tokens_per_block == Tokens{64});
}

TEST_CASE("the exact kernel set on a GPU whose kernels do not read the pool", "[capability]") {
  KernelQuery query = k3_drafter();
  query.user = PoolUser::kDflash;
  query.architecture = "sm_90";
  const PageSizeChoice choice = decide({.query = query, .kernel_set = KernelSet::kExact}, 256);
  CHECK(choice.tokens_per_block == Tokens{256});
  CHECK(choice.decision.reason == "no required row reads the pool: the target's page");
}

TEST_CASE("the exact kernel set does not claim what hangs on an unknown GPU", "[capability]") {
  KernelQuery query = k3_drafter();
  query.user = PoolUser::kDflash;
  query.architecture = "";
  const PageSizeChoice choice = decide({.query = query, .kernel_set = KernelSet::kExact}, 64);
  const Decision& narrowed = choice.losses.front();
  CHECK(narrowed.reason ==
        "asked for: 1 of 8 rows run on this deployment, and 4 more might: they are asked, too, "
        "because the GPU is not stated");
  CHECK(verdict_of(narrowed.verdicts, "dflash_fa4") == "runs, if the GPU is sm_90");
  CHECK(verdict_of(narrowed.verdicts, "dflash_gqa_trtllm_gen") ==
        "runs, if the GPU is sm_100 or sm_103");
  CHECK(verdict_of(narrowed.verdicts, "dflash_vanilla") == "runs");
}

TEST_CASE("a back-end none of whose rows runs here is refused with why and which would",
          "[capability]") {
  KernelQuery query = k3_drafter();
  query.user = PoolUser::kDflash;
  const PageSizeChoice hopper_only = decide({.query = query, .backend = "fa4"}, 64);
  REQUIRE(hopper_only.refusal.has_value());
  CHECK(hopper_only.refusal->id == "drafter_backend");
  CHECK(hopper_only.refusal->what ==
        "no row of the back-end FA4 runs here: dflash_fa4 needs sm_90, this is sm_100");
  CHECK(hopper_only.refusal->accepted == Ids{"TRTLLM", "VANILLA"});
  CHECK(hopper_only.refusal->least_that_works == "back-end TRTLLM or VANILLA, or none named");
  CHECK(hopper_only.refusal->verdicts.size() == 8);
  // By shape, too: CUTEDSL reads latent caches alone.
  const PageSizeChoice latent_only = decide({.query = k3_drafter(), .backend = "CUTEDSL"}, 128);
  REQUIRE(latent_only.refusal.has_value());
  CHECK_THAT(latent_only.refusal->what,
             ContainsSubstring("dspark_mla_cute_dsl reads a latent cache, this is key_value"));
  // A GPU that is not stated refuses nothing.
  query.architecture = "";
  const PageSizeChoice unknown = decide({.query = query, .backend = "FA4"}, 64);
  CHECK(unknown.tokens_per_block == Tokens{64});
  CHECK(verdict_of(unknown.losses.front().verdicts, "dflash_fa4") == "asked, if the GPU is sm_90");
}

TEST_CASE("a back-end narrows the rows, as a decision, in any case", "[capability]") {
  const auto* const spelling = GENERATE("CUTEDSL", "cutedsl", "CuteDsl");
  KernelQuery query = rows::mla_target("sm_100");
  query.user = PoolUser::kDspark;
  query.mask = AttentionMask::kNonCausal;
  query.query_tokens = 7;
  const PageSizeChoice choice = decide({.query = query, .backend = spelling}, 128);
  CHECK(choice.tokens_per_block == Tokens{128});
  REQUIRE(ids(choice.losses) == Ids{"kernel_set"});
  CHECK(choice.losses.front().chosen == "CUTEDSL");
  CHECK(choice.losses.front().instead_of == "every back-end");
  // The row itself, and the one that runs under every back-end.
  CHECK(choice.losses.front().reason == "the engine is told to use CUTEDSL: 2 of 8 rows are asked");
  CHECK(verdict_of(choice.losses.front().verdicts, "dflash_fa4") == "of back-end FA4");
}

TEST_CASE("the TRTLLM back-end keeps the fused row in view", "[capability]") {
  const PageSizeQuestion question{
      .query = k3_drafter(), .backend = "TRTLLM", .explicit_page = Tokens{32}};
  CHECK(ids(decide(question, 64).losses) ==
        Ids{"kernel_set", "preferred_kernel_lost", "preferred_kernel_lost"});
}

TEST_CASE("a back-end that does not read the pool leaves the target's page", "[capability]") {
  CHECK(decide({.query = k3_drafter(), .backend = "VANILLA"}, 128).tokens_per_block == Tokens{128});
  KernelQuery hopper = k3_drafter();
  hopper.architecture = "sm_90";
  CHECK(decide({.query = hopper, .backend = "FA4"}, 16).tokens_per_block == Tokens{16});
}

TEST_CASE("an unknown back-end is refused with the known ones", "[capability]") {
  const PageSizeChoice choice = decide({.query = k3_drafter(), .backend = "FA3"}, 64);
  REQUIRE(choice.refusal.has_value());
  CHECK(choice.refusal->id == "drafter_backend");
  CHECK(choice.refusal->what == "no row of dspark is of a back-end 'FA3'");
  CHECK(choice.refusal->accepted == Ids{"CUTEDSL", "FA4", "TRTLLM", "VANILLA"});
  CHECK(choice.refusal->least_that_works ==
        "back-end CUTEDSL, FA4, TRTLLM or VANILLA, or none named");
}

TEST_CASE("the bundled kernel set is refused while its rows are missing", "[capability]") {
  const PageSizeChoice choice =
      decide({.query = k3_drafter(), .kernel_set = KernelSet::kKvpool}, 64);
  REQUIRE(choice.refusal.has_value());
  CHECK(choice.refusal->id == "kernel_set");
  CHECK(choice.refusal->what ==
        "the kernel set kvpool has no row for draft_block and append of "
        "dspark");
  CHECK(choice.refusal->accepted == Ids{"trtllm", "exact"});
}

TEST_CASE("the bundled kernel set decides by its own rows once they are there", "[capability]") {
  KernelCapability block = draft_row("kvpool_packed", one_of({16, 32, 64, 128}));
  block.kernel_set = "kvpool";
  KernelCapability append = draft_row("kvpool_append", PageSizeRule{});
  append.kernel_set = "kvpool";
  append.role = KernelRole::kAppend;
  const PageSizeQuestion question{.query = k3_drafter(), .kernel_set = KernelSet::kKvpool};
  const PageSizeChoice choice = decide(question, 128, {block, append});
  CHECK(choice.tokens_per_block == Tokens{128});
  CHECK(ids(choice.losses) == Ids{"kernel_set"});
  CHECK(choice.losses.front().chosen == "kvpool");
  CHECK(choice.decision.verdicts.size() == 2);
  CHECK_THAT(decide(question, 128, {block}).refusal->what,
             ContainsSubstring("no row for append of dspark"));
}

TEST_CASE("MTP and Eagle3 have the target's page", "[capability]") {
  const auto user = GENERATE(PoolUser::kMtp, PoolUser::kEagle3);
  const auto page = GENERATE(std::int64_t{16}, std::int64_t{64}, std::int64_t{128});
  const auto* const architecture = GENERATE("sm_90", "sm_100", "");
  KernelQuery query = rows::gqa_target(architecture);
  query.user = user;
  const PageSizeChoice choice = decide({.query = query}, page);
  CHECK(choice.tokens_per_block == Tokens{page});
  CHECK(choice.decision.reason == std::string{to_string(user)} + " has the target's page");
  CHECK(choice.losses.empty());
}

TEST_CASE("MTP is refused when a required row that runs refuses the target's page",
          "[capability]") {
  KernelCapability row = rows::target_row("mtp_32", one_of({32}));
  row.serves = {PoolUser::kMtp};
  KernelQuery query = rows::gqa_target("sm_100");
  query.user = PoolUser::kMtp;
  CHECK(decide({.query = query}, 32, {row}).tokens_per_block == Tokens{32});
  const PageSizeChoice choice = decide({.query = query}, 64, {row});
  REQUIRE(choice.refusal.has_value());
  CHECK(choice.refusal->what ==
        "mtp has the target's page of 64 tokens, which is refused by mtp_32 ({32})");
  CHECK(choice.refusal->accepted == Ids{"32"});
  CHECK(choice.refusal->least_that_works == "--page-size 32");
  // On another GPU the row does not run.
  row.limits.architectures = {"sm_90"};
  CHECK(decide({.query = query}, 64, {row}).tokens_per_block == Tokens{64});
  query.architecture = "";
  CHECK(decide({.query = query}, 64, {row}).tokens_per_block == Tokens{64});
}

TEST_CASE("MTP has no page of its own", "[capability]") {
  KernelQuery query = rows::gqa_target("sm_100");
  query.user = PoolUser::kMtp;
  CHECK(decide({.query = query, .explicit_page = Tokens{64}}, 64).tokens_per_block == Tokens{64});
  const PageSizeChoice choice = decide({.query = query, .explicit_page = Tokens{32}}, 64);
  REQUIRE(choice.refusal.has_value());
  CHECK(choice.refusal->accepted == Ids{"64"});
}

TEST_CASE("draft-target and PARD have the target's page unless a row of theirs refuses it",
          "[capability]") {
  const auto user = GENERATE(PoolUser::kDraftTarget, PoolUser::kPard);
  KernelQuery query = rows::gqa_target("sm_100");
  query.user = user;
  CHECK(decide({.query = query}, 128).tokens_per_block == Tokens{128});
  KernelCapability row = draft_row("theirs", one_of({16, 32}));
  row.serves = {user};
  CHECK(decide({.query = query}, 128, {row}).tokens_per_block == Tokens{32});
  row.limits.head_dims = {64};
  CHECK(decide({.query = query}, 128, {row}).tokens_per_block == Tokens{128});
}

}  // namespace
}  // namespace kvpool
