// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/testing/agreement.hpp>

#include <kvpool/memory/simulated_memory.hpp>

#include "pools.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace kvpool::testing {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr std::uintptr_t kBase = 0x7f0000000000;

/// The report of one allocation for a plan of one pool.
PoolAgreement held_for(const PoolDescriptor& pool, std::int64_t bytes) {
  const std::vector<Allocation> allocations{{pool.name, kBase, Bytes{bytes}}};
  const AgreementReport report = check_allocations(plan_of({pool}), allocations);
  REQUIRE(report.pools.size() == 1);
  return report.pools.front();
}

PoolSet allocate(const std::vector<PoolDescriptor>& pools) {
  auto set = PoolSet::create(pools, SimulatedMemory{});
  REQUIRE(set.has_value());
  return *std::move(set);
}

TEST_CASE("a pool agrees when its rows are held, or its rows in whole granules") {
  const PoolDescriptor pool = dspark_pool();
  const PoolAgreement rows = held_for(pool, 3'722'526'720);
  CHECK(rows.reason.empty());
  CHECK(rows.charged == Bytes{3'722'526'720});
  CHECK(rows.difference == Bytes{0});

  const PoolAgreement granules = held_for(pool, 3'724'541'952);
  CHECK(granules.reason.empty());
  CHECK(granules.charged == Bytes{3'724'541'952});
  CHECK(granules.difference == Bytes{0});
}

TEST_CASE("a byte more or less disagrees") {
  const PoolDescriptor pool = dspark_pool();
  const PoolAgreement more = held_for(pool, 3'724'541'953);
  CHECK(more.difference == Bytes{1});
  CHECK_THAT(more.reason, ContainsSubstring("1 B more is held than was charged"));
  const PoolAgreement less = held_for(pool, 3'722'526'719);
  CHECK(less.difference == Bytes{-2'015'233});
  CHECK_THAT(less.reason, ContainsSubstring("less is held than was charged"));
  CHECK_THAT(held_for(pool, 3'722'526'721).reason,
             ContainsSubstring("held in other granules than 2MiB"));
}

TEST_CASE("64-token pages held where 32-token pages were charged are named") {
  const PoolDescriptor charged = pool("draft", PoolRole::kDraft, gqa_layers(5, 1), 32, 1'023);
  CHECK(charged.bytes() == Bytes{41'943'040});
  const PoolAgreement found = held_for(charged, std::int64_t{1'024} * 81'920);
  CHECK(found.charged == Bytes{41'943'040});
  CHECK(found.held == Bytes{83'886'080});
  CHECK(found.difference == Bytes{41'943'040});
  CHECK(found.reason.starts_with(
      "held is the bytes of 64-token pages where 32-token pages were charged"));
}

TEST_CASE("a draft pool that is charged as fp8 and held as bf16 is named, and the reverse") {
  // 5 layers of 576 elements: 2,880 and 5,760 bytes a token.
  const PoolDescriptor fp8 =
      pool("draft", PoolRole::kDraft, mla_layers(5, KvDtype::kFp8E4m3), 32, 9'999);
  const std::int64_t tokens = 320'000;
  CHECK(fp8.bytes() == Bytes{tokens * 2'880});
  const PoolAgreement twice = held_for(fp8, tokens * 5'760);
  CHECK(twice.reason.starts_with("charged as fp8_e4m3, held as bf16 (twice)"));
  CHECK_THAT(twice.reason, ContainsSubstring("; or held is the bytes of 64-token pages"));

  const PoolDescriptor bf16 =
      pool("draft", PoolRole::kDraft, mla_layers(5, KvDtype::kBf16), 32, 9'999);
  const PoolDescriptor target =
      pool("target", PoolRole::kTarget, mla_layers(24, KvDtype::kFp8E4m3), 64, 1'000);
  const AgreementReport inherited = check_allocations(
      plan_of({target, bf16}), std::vector<Allocation>{{"target", kBase, target.charged_bytes()},
                                                       {"draft", 256, Bytes{tokens * 2'880}}});
  REQUIRE(inherited.pools.size() == 2);
  CHECK(inherited.pools[0].reason.empty());
  CHECK(inherited.pools[1].reason.starts_with("charged as bf16, held as fp8_e4m3 (half)"));
}

TEST_CASE("KV heads that were divided instead of rounded up are named") {
  // 2 KV heads over 8 ranks: one head each is charged, a quarter of one held.
  const PoolDescriptor charged = pool("target", PoolRole::kTarget, gqa_layers(8, 1), 64, 2'047);
  const PoolAgreement found = held_for(charged, charged.bytes().count() / 4);
  CHECK_THAT(found.reason,
             ContainsSubstring("KV heads were divided (1/4) instead of rounded up to 1"));
  // 10 over 4: 3 heads are charged, 2.5 held.
  const PoolDescriptor three = pool("target", PoolRole::kTarget, gqa_layers(8, 3), 64, 2'047);
  CHECK(held_for(three, three.bytes().count() / 6 * 5).reason ==
        "KV heads were divided (5/2) instead of rounded up to 3");
  // Not divided at all.
  CHECK_THAT(held_for(charged, charged.bytes().count() * 8).reason,
             ContainsSubstring("held with 8 KV heads a rank where 1 was charged"));
}

TEST_CASE("missing guard pages, layers and pages are named") {
  const PoolDescriptor pool = dspark_pool();
  CHECK(held_for(pool, 3'722'444'800).reason == "held without the 1 reserved page at the start");
  CHECK(held_for(pool, 3'722'526'720 / 5 * 4).reason == "held is the bytes of 4 of its 5 layers");
  CHECK(held_for(pool, std::int64_t{45'439} * 81'920).reason ==
        "held is 45439 pages of 81920 B where 45441 were charged");
}

TEST_CASE("states that are held in another format are named") {
  const PoolDescriptor states = pool("state", PoolRole::kState, state_layers(3), 0, 64);
  // 3 x (3,072 x 2 + 16,384 x 4) bytes a slot.
  CHECK(states.bytes() == Bytes{13'977'600});
  CHECK(held_for(states, std::int64_t{65} * 3 * (3'072 * 2 + 16'384 * 2)).reason ==
        "matrix states held as bf16");
  CHECK(held_for(states, std::int64_t{65} * 3 * (3'072 * 4 + 16'384 * 4)).reason ==
        "convolution states held as fp32");
  CHECK(held_for(states, std::int64_t{65} * 3 * (3'072 + 16'384)).reason ==
        "all states held as fp8_e4m3");
}

TEST_CASE("several allocations of one pool are summed") {
  const PoolDescriptor pool = dspark_pool();
  std::vector<Allocation> layers;
  layers.reserve(5);
  for (std::uintptr_t i = 0; i < 5; ++i) {
    layers.push_back({"draft", kBase + i * 0x40000000, Bytes{3'722'526'720 / 5}});
  }
  CHECK(check_allocations(plan_of({pool}), layers).agrees());
  for (Allocation& layer : layers) {
    layer.bytes = align_up(layer.bytes, kGranule);
  }
  const AgreementReport rounded = check_allocations(plan_of({pool}), layers);
  CHECK(rounded.pools.front().reason == "5 allocations, each in granules of its own");
  layers.pop_back();
  CHECK_FALSE(check_allocations(plan_of({pool}), layers).agrees());
}

TEST_CASE("missing and unknown pools disagree") {
  const PoolPlan plan = plan_of({pool("target", PoolRole::kTarget, gqa_layers(2, 1), 64, 63),
                                 pool("draft", PoolRole::kDraft, gqa_layers(1, 1), 64, 63)});
  const std::vector<Allocation> allocations{{"target", kBase, plan.pools[0].bytes()},
                                            {"drafts", kBase * 2, plan.pools[1].bytes()}};
  const AgreementReport report = check_allocations(plan, allocations);
  REQUIRE(report.pools.size() == 3);
  CHECK(report.pools[0].reason.empty());
  CHECK(report.pools[1].pool == "draft");
  CHECK(report.pools[1].held == Bytes{0});
  CHECK(report.pools[1].difference == Bytes{-2'097'152});
  CHECK(report.pools[1].reason == "charged, but not allocated");
  CHECK(report.pools[2].pool == "drafts");
  CHECK(report.pools[2].charged == Bytes{0});
  CHECK(report.pools[2].reason == "the plan has no pool drafts; it has target, draft");
}

TEST_CASE("ranges that overlap disagree, within a pool and between pools") {
  const PoolPlan plan = plan_of({pool("target", PoolRole::kTarget, gqa_layers(2, 1), 64, 63),
                                 pool("draft", PoolRole::kDraft, gqa_layers(1, 1), 64, 63)});
  const Bytes target = plan.pools[0].bytes();
  const Bytes draft = plan.pools[1].bytes();
  const auto end = kBase + static_cast<std::uintptr_t>(target.count());
  CHECK(check_allocations(plan,
                          std::vector<Allocation>{{"target", kBase, target}, {"draft", end, draft}})
            .agrees());
  const AgreementReport between = check_allocations(
      plan, std::vector<Allocation>{{"draft", end - 256, draft}, {"target", kBase, target}});
  CHECK_THAT(between.pools[0].reason, ContainsSubstring("overlaps with an allocation of draft"));
  CHECK_THAT(between.pools[1].reason, ContainsSubstring("overlaps with an allocation of target"));
  const Bytes half{target.count() / 2};
  const AgreementReport within = check_allocations(
      plan, std::vector<Allocation>{
                {"target", kBase, half}, {"target", kBase, half}, {"draft", end, draft}});
  CHECK_THAT(within.pools[0].reason, ContainsSubstring("overlaps with an allocation of target"));
  CHECK(within.pools[1].reason.empty());
}

TEST_CASE("addresses and sizes that make no sense disagree") {
  const PoolDescriptor charged = pool("target", PoolRole::kTarget, gqa_layers(2, 1), 64, 63);
  const Bytes bytes = charged.bytes();
  const auto reason = [&charged](std::vector<Allocation> allocations) {
    return check_allocations(plan_of({charged}), allocations).pools.front().reason;
  };
  CHECK(reason({{"target", kBase + 16, bytes}}) ==
        "base 0x7f0000000010 is misaligned: not a multiple of 256 B");
  CHECK(reason({{"target", kBase + 256, bytes}}).empty());
  constexpr std::uintptr_t kLast = std::numeric_limits<std::uintptr_t>::max() - 255;
  CHECK_THAT(reason({{"target", kLast, bytes}}),
             ContainsSubstring("run past the end of the address space"));
  CHECK_THAT(reason({{"target", kBase, bytes}, {"target", kLast, Bytes{-1}}}),
             ContainsSubstring("an allocation of -1 B"));
  constexpr Bytes kMost{std::numeric_limits<std::int64_t>::max()};
  CHECK_FALSE(reason({{"target", 0, kMost}, {"target", kBase, kMost}}).empty());
}

TEST_CASE("a role stands for all of its pools, a pool's name for itself") {
  const PoolPlan plan =
      plan_of({pool("target/full", PoolRole::kTarget, gqa_layers(2, 1), 64, 63),
               pool("target/sliding_window_1024", PoolRole::kTarget, gqa_layers(3, 1), 64, 63),
               pool("draft", PoolRole::kDraft, gqa_layers(1, 1), 64, 63)});
  const Bytes full = plan.pools[0].bytes();
  const Bytes window = plan.pools[1].bytes();
  const Allocation draft{"draft", 256, plan.pools[2].bytes()};
  const AgreementReport role =
      check_allocations(plan, std::vector<Allocation>{{"target", kBase, full + window}, draft});
  REQUIRE(role.pools.size() == 2);
  CHECK(role.pools[0].pool == "target");
  CHECK(role.pools[0].charged == Bytes{5'242'880});
  CHECK(role.agrees());

  const std::vector<Allocation> by_name{
      {"target/full", kBase, full}, {"target/sliding_window_1024", 2 * kBase, window}, draft};
  const AgreementReport pools = check_allocations(plan, by_name);
  CHECK(pools.pools.size() == 3);
  CHECK(pools.agrees());

  std::vector<Allocation> mixed = by_name;
  mixed[1].pool = "target";
  CHECK(check_allocations(plan, mixed).agrees());
  CHECK(check_allocations(plan, mixed).pools.size() == 2);

  const AgreementReport larger = check_allocations(
      plan, std::vector<Allocation>{{"target", kBase, 2 * (full + window)}, draft});
  CHECK_THAT(larger.pools[0].reason,
             ContainsSubstring("128-token pages where 64-token pages were charged"));
}

TEST_CASE("groups that share slabs are laid out again together") {
  const std::vector<LayerGeometry> full = gqa_layers(2, 1);
  std::vector<LayerGeometry> layers =
      gqa_layers(6, 1, KvDtype::kBf16, {SpanKind::kSlidingWindow, Tokens{1024}});
  layers.insert(layers.end(), full.begin(), full.end());
  const PoolDescriptor shared = pool("target", PoolRole::kTarget, layers, 64, 500);
  REQUIRE(shared.groups.size() == 2);
  CHECK(shared.bytes() == Bytes{98'402'304});
  CHECK(held_for(shared, shared.charged_bytes().count()).reason.empty());
  CHECK(held_for(shared, std::int64_t{1'001} * 98'304 * 2)
            .reason.starts_with(
                "held is the bytes of 128-token pages where 64-token pages were charged"));
}

TEST_CASE("kvpool's own pools hold what their plan charges") {
  const PoolPlan plan =
      plan_of({pool("target", PoolRole::kTarget, gqa_layers(2, 1), 64, 63), dspark_pool()});
  const PoolSet pools = allocate(plan.pools);
  const AgreementReport report = check_cost_equals_allocation(plan, pools);
  CHECK(report.agrees());
  REQUIRE(report.pools.size() == 2);
  CHECK(report.pools[1].charged == Bytes{3'724'541'952});
  CHECK(report.pools[1].held == Bytes{3'724'541'952});
}

TEST_CASE("pools that were allocated from another plan disagree, and why is said") {
  const auto reason = [](const PoolDescriptor& planned, const PoolDescriptor& allocated) {
    const PoolSet pools = allocate({allocated});
    return check_cost_equals_allocation(plan_of({planned}), pools).pools.front().reason;
  };
  const PoolDescriptor planned = dspark_pool();
  CHECK(reason(planned, pool("draft", PoolRole::kDraft, gqa_layers(5, 1), 32, 45'440)) ==
        "held in 32-token pages where 64-token pages were charged");
  CHECK(reason(planned, pool("draft", PoolRole::kDraft, gqa_layers(5, 1, KvDtype::kFp8E4m3), 64,
                             45'440)) == "charged as bf16, held as fp8_e4m3");
  CHECK(reason(planned, pool("draft", PoolRole::kDraft, gqa_layers(5, 2), 64, 45'440)) ==
        "held with 2 KV heads a rank where 1 were charged");
  CHECK(reason(planned, pool("draft", PoolRole::kDraft, gqa_layers(5, 1), 64, 45'439)) ==
        "45439 usable pages held where 45440 were charged");
  CHECK(reason(planned, pool("draft", PoolRole::kDraft, gqa_layers(5, 1), 64, 45'440, 0)) ==
        "0 reserved pages held where 1 were charged");
  CHECK(reason(planned, pool("draft", PoolRole::kTarget, gqa_layers(5, 1), 64, 45'440)) ==
        "allocated from another descriptor than the plan's");

  const PoolSet two = allocate({planned, pool("extra", PoolRole::kDraft, gqa_layers(1, 1), 64, 1)});
  const AgreementReport more = check_cost_equals_allocation(plan_of({planned}), two);
  REQUIRE(more.pools.size() == 2);
  CHECK(more.pools[0].reason.empty());
  CHECK(more.pools[1].reason == "the plan has no pool extra; it has draft");
  const PoolSet one = allocate({planned});
  CHECK_FALSE(check_cost_equals_allocation(plan_of({planned, two.pools()[1]}), one).agrees());

  PoolPlan account = plan_of({planned});
  account.accounts.emplace_back();
  account.accounts.back().pool = "draft";
  CHECK_THAT(check_cost_equals_allocation(account, one).pools.front().reason,
             ContainsSubstring("the plan's account charges 0 B"));
}

TEST_CASE("a page size is checked for the pool and in bytes") {
  const PoolPlan plan = plan_of({pool("target", PoolRole::kTarget, gqa_layers(2, 1), 64, 1'023),
                                 pool("draft", PoolRole::kDraft, gqa_layers(1, 1), 32, 1'023),
                                 pool("state", PoolRole::kState, state_layers(1), 0, 7)});
  CHECK(check_page_size(plan, "target", Tokens{64}).agrees());
  CHECK(check_page_size(plan, "draft", Tokens{32}).agrees());
  const AgreementReport wrong = check_page_size(plan, "draft", Tokens{64});
  REQUIRE(wrong.pools.size() == 1);
  CHECK(wrong.pools[0].charged == Bytes{8'388'608});
  CHECK(wrong.pools[0].held == Bytes{16'777'216});
  CHECK(wrong.pools[0].reason == "32-token pages were charged, 64-token pages are expected");
  CHECK_FALSE(check_page_size(plan, "draft", Tokens{0}).agrees());
  CHECK_FALSE(check_page_size(plan, "state", Tokens{64}).agrees());
  CHECK(check_page_size(plan, "drift", Tokens{64}).pools.front().reason ==
        "the plan has no pool drift; it has target, draft, state");
}

TEST_CASE("of a whole plan the smallest rank is checked") {
  Plan plan{};
  plan.ranks = {plan_of({pool("target", PoolRole::kTarget, gqa_layers(2, 1), 64, 63)}),
                plan_of({pool("target", PoolRole::kTarget, gqa_layers(3, 1), 64, 63)})};
  plan.smallest_rank = 1;
  const std::vector<Allocation> second{{"target", kBase, plan.ranks[1].pools[0].bytes()}};
  CHECK(check_allocations(plan, second).agrees());
  CHECK(check_cost_equals_allocation(plan, allocate(plan.ranks[1].pools)).agrees());
  CHECK(check_page_size(plan, "target", Tokens{64}).agrees());
  plan.smallest_rank = 0;
  CHECK_FALSE(check_allocations(plan, second).agrees());
}

TEST_CASE("a check with nothing to compare disagrees") {
  CHECK_FALSE(AgreementReport{}.agrees());
  CHECK_FALSE(check_allocations(PoolPlan{}, {}).agrees());
  CHECK_FALSE(check_cost_equals_allocation(PoolPlan{}, allocate({})).agrees());
  const AgreementReport refused = check_allocations(Plan{}, {});
  CHECK(refused.text() == "plan: charged 0 B, held 0 B: the plan has no pools: it was refused");
}

TEST_CASE("a report reads as a line per pool") {
  const PoolPlan plan = plan_of({pool("target", PoolRole::kTarget, gqa_layers(2, 1), 64, 63),
                                 pool("draft", PoolRole::kDraft, gqa_layers(1, 1), 32, 63)});
  const std::vector<Allocation> allocations{{"target", kBase, Bytes{2'097'152}},
                                            {"draft", 256, Bytes{1'048'576}}};
  CHECK(check_allocations(plan, allocations).text() ==
        "target: charged 2,097,152 B (2.00 MiB), held 2,097,152 B (2.00 MiB): agrees\n"
        "draft: charged 2,097,152 B (2.00 MiB), held 1,048,576 B (1.00 MiB) (-1048576 B): "
        "held is the bytes of 64-token pages where 32-token pages were charged; or held with "
        "2 KV heads a rank where 1 was charged; or charged as bf16, held as fp32 (twice)");
}

}  // namespace
}  // namespace kvpool::testing
