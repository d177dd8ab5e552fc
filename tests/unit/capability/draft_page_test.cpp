// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/capability_registry.hpp>

#include "support/catch.hpp"
#include "unit/capability/kernel_rows.hpp"

namespace kvpool {
namespace {

using Catch::Matchers::ContainsSubstring;
using rows::draft_row;
using rows::known_draft_rows;
using rows::one_of;
using rows::verdict_of;

std::optional<std::int64_t> draft_page(std::int64_t target_page,
                                       const std::vector<KernelCapability>& rows) {
  const PageSizeChoice choice = decide_draft_page(Tokens{target_page}, rows);
  CHECK(choice.tokens_per_block.has_value() != choice.refusal.has_value());
  return choice.tokens_per_block.has_value() ? std::optional{choice.tokens_per_block->count()}
                                             : std::nullopt;
}

TEST_CASE("the known rows keep 64 and 32 and turn every other page into 32", "[capability]") {
  const auto [target, draft] = GENERATE(table<std::int64_t, std::int64_t>({
      {64, 64},
      {32, 32},
      {8, 32},
      {16, 32},
      {48, 32},
      {128, 32},
      {256, 32},
  }));
  CHECK(draft_page(target, known_draft_rows()) == draft);
}

TEST_CASE("the rows of either drafter alone give the page of their own intersection",
          "[capability]") {
  std::vector<KernelCapability> dspark_mla;
  std::vector<KernelCapability> dflash_gqa;
  for (const KernelCapability& row : known_draft_rows()) {
    if (row.name.starts_with("dspark_mla")) {
      dspark_mla.push_back(row);
    } else if (row.name.starts_with("dflash")) {
      dflash_gqa.push_back(row);
    }
  }
  CHECK(draft_page(16, dspark_mla) == 32);
  CHECK(draft_page(64, dspark_mla) == 64);
  CHECK(draft_page(16, dflash_gqa) == 16);
  CHECK(draft_page(128, dflash_gqa) == 32);
}

TEST_CASE("a kept page says so, with every verdict", "[capability]") {
  const PageSizeChoice choice = decide_draft_page(Tokens{64}, known_draft_rows());
  CHECK(choice.decision.id == "draft_page_size");
  CHECK(choice.decision.pool == "draft");
  CHECK(choice.decision.chosen == "64");
  CHECK(choice.decision.instead_of.empty());
  CHECK(choice.decision.reason == "the target's page; every required row accepts it");
  CHECK(choice.losses.empty());
  REQUIRE(choice.decision.verdicts.size() == 8);
  CHECK(choice.decision.verdicts[0] ==
        Verdict{.row = "dspark_mla_trtllm_gen", .accepts = "{32, 64}", .verdict = "accepts 64"});
  CHECK(verdict_of(choice.decision.verdicts, "dspark_mla_cute_dsl") == "accepts 64");
  CHECK(verdict_of(choice.decision.verdicts, "dflash_fa4") == "not read");
  CHECK(verdict_of(choice.decision.verdicts, "dflash_vanilla") == "not read");
  CHECK(verdict_of(choice.decision.verdicts, "k3_drafter_attn_qknorm") == "accepts 64 (preferred)");
}

TEST_CASE("a moved page says instead of what, and who refused", "[capability]") {
  const PageSizeChoice choice = decide_draft_page(Tokens{128}, known_draft_rows());
  CHECK(choice.decision.chosen == "32");
  CHECK(choice.decision.instead_of == "128");
  CHECK(choice.decision.reason ==
        "the target's page of 128 tokens is refused by dspark_mla_trtllm_gen ({32, 64}) and "
        "dflash_gqa_trtllm_gen ({16, 32, 64}); every required row accepts 32");
  CHECK(verdict_of(choice.decision.verdicts, "dspark_mla_trtllm_gen") == "refuses 128, accepts 32");
  CHECK(verdict_of(choice.decision.verdicts, "dspark_mla_cute_dsl") == "accepts 128, accepts 32");
}

TEST_CASE("a required row for 64 only keeps 64 and refuses the rest", "[capability]") {
  std::vector<KernelCapability> rows = known_draft_rows();
  rows.push_back(draft_row("only_64", one_of({64})));
  CHECK(draft_page(64, rows) == 64);
  const auto target = GENERATE(std::int64_t{32}, std::int64_t{128});
  CHECK(draft_page(target, rows) == std::nullopt);
  const PageSizeChoice choice = decide_draft_page(Tokens{target}, rows);
  REQUIRE(choice.refusal.has_value());
  CHECK(choice.refusal->id == "draft_page_size");
  CHECK(choice.refusal->missing_bytes == Bytes{0});
  CHECK(choice.refusal->accepted == std::vector<std::string>{"64"});
  CHECK(choice.refusal->least_that_works == "--draft-page-size 64");
  CHECK_THAT(choice.refusal->what, ContainsSubstring("only_64 ({64})"));
  CHECK(choice.refusal->verdicts.size() == rows.size());
  CHECK(verdict_of(choice.refusal->verdicts, "only_64") ==
        (target == 32 ? "refuses 32" : "refuses 128, refuses 32"));
}

TEST_CASE("a preferred row never moves the page", "[capability]") {
  std::vector<KernelCapability> rows = known_draft_rows();
  rows.push_back(draft_row("wish", one_of({48})));
  rows.back().necessity = Necessity::kPreferred;
  CHECK(draft_page(64, rows) == 64);
  CHECK(draft_page(48, rows) == 32);
}

TEST_CASE("without a required row that reads the pool the target's page is taken", "[capability]") {
  CHECK(draft_page(48, {}) == 48);
  const std::vector<KernelCapability> unread = {
      draft_row("arena", PageSizeRule{PageSizeRule::NotRead{}})};
  const PageSizeChoice choice = decide_draft_page(Tokens{256}, unread);
  CHECK(choice.tokens_per_block == Tokens{256});
  CHECK(choice.decision.reason == "no required row reads the pool: the target's page");
  CHECK(verdict_of(choice.decision.verdicts, "arena") == "not read");
}

TEST_CASE("the intersection is computed and no constant", "[capability]") {
  // 32 is not among the common sizes: 16-token targets keep theirs, all others are refused.
  const std::vector<KernelCapability> rows = {
      draft_row("a", one_of({8, 16, 48})),
      draft_row("b", PageSizeRule{PageSizeRule::DivisorsOf{48}})};
  CHECK(draft_page(16, rows) == 16);
  CHECK(draft_page(48, rows) == 48);
  CHECK(draft_page(32, rows) == std::nullopt);
  const PageSizeChoice choice = decide_draft_page(Tokens{64}, rows);
  REQUIRE(choice.refusal.has_value());
  CHECK(choice.refusal->accepted == std::vector<std::string>{"8", "16", "48"});
  CHECK(choice.refusal->least_that_works == "--draft-page-size 48");
}

TEST_CASE("an empty intersection says so and which row to drop", "[capability]") {
  std::vector<KernelCapability> rows = known_draft_rows();
  rows.push_back(draft_row("only_128", one_of({128})));
  const PageSizeChoice choice = decide_draft_page(Tokens{64}, rows);
  REQUIRE(choice.refusal.has_value());
  CHECK(choice.refusal->accepted.empty());
  CHECK_THAT(choice.refusal->what, ContainsSubstring("no size suits every required row"));
  CHECK(choice.refusal->least_that_works == "--draft-page-size 64, without the rows only_128");
}

TEST_CASE("an empty intersection may need more than one row dropped", "[capability]") {
  const std::vector<KernelCapability> rows = {
      draft_row("a", one_of({16})), draft_row("b", one_of({16})), draft_row("c", one_of({48})),
      draft_row("d", one_of({96}))};
  const PageSizeChoice choice = decide_draft_page(Tokens{64}, rows);
  REQUIRE(choice.refusal.has_value());
  CHECK(choice.refusal->least_that_works == "--draft-page-size 16, without the rows c and d");
}

TEST_CASE("large common sizes are found", "[capability]") {
  const std::vector<KernelCapability> multiples = {
      draft_row("a", PageSizeRule{PageSizeRule::MultiplesOf{768}}),
      draft_row("b", PageSizeRule{PageSizeRule::MultiplesOf{1024}})};
  CHECK(decide_draft_page(Tokens{64}, multiples).refusal->accepted ==
        std::vector<std::string>{"3072"});
  const std::vector<KernelCapability> divisors = {
      draft_row("a", PageSizeRule{PageSizeRule::DivisorsOf{8192}}), draft_row("b", one_of({4096}))};
  CHECK(decide_draft_page(Tokens{64}, divisors).refusal->accepted ==
        std::vector<std::string>{"4096"});
  const std::vector<KernelCapability> both = {
      draft_row("a", PageSizeRule{PageSizeRule::DivisorsOf{8192}}),
      draft_row("b", PageSizeRule{PageSizeRule::MultiplesOf{2048}})};
  CHECK(decide_draft_page(Tokens{64}, both).refusal->accepted ==
        std::vector<std::string>{"2048", "4096", "8192"});
}

TEST_CASE("a long list of sizes is told by the rule behind it", "[capability]") {
  const std::vector<KernelCapability> rows = {
      draft_row("any", PageSizeRule{}),
      draft_row("odd", PageSizeRule{PageSizeRule::MultiplesOf{3, 900}})};
  CHECK(decide_draft_page(Tokens{64}, rows).refusal->accepted ==
        std::vector<std::string>{"multiples of 3 up to 900"});
}

TEST_CASE("impossible target pages are refused", "[capability]") {
  const auto page =
      GENERATE(std::int64_t{0}, std::int64_t{-64}, std::numeric_limits<std::int64_t>::min());
  const PageSizeChoice choice = decide_draft_page(Tokens{page}, known_draft_rows());
  CHECK_FALSE(choice.tokens_per_block.has_value());
  REQUIRE(choice.refusal.has_value());
  CHECK_THAT(choice.refusal->what, ContainsSubstring("pages start at 1 token"));
  CHECK(choice.refusal->accepted == std::vector<std::string>{"32", "64"});
}

TEST_CASE("a huge target page moves like any other", "[capability]") {
  CHECK(draft_page(std::numeric_limits<std::int64_t>::max(), known_draft_rows()) == 32);
}

}  // namespace
}  // namespace kvpool
