// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/solve/sequence_use.hpp>

#include <kvpool/plan/planner.hpp>

#include "support/catch.hpp"

#include <vector>

namespace kvpool {
namespace {

/// Two layers with two KV heads of 8 elements, one of them with a window of 100 tokens.
Plan small_plan(std::int64_t page, bool with_window) {
  PlanRequest request;
  request.target.name = "small";
  request.target.native_dtype = KvDtype::kBf16;
  for (int i = 0; i < 2; ++i) {
    AttentionCache cache{
        .query_heads = Heads{4}, .kv_heads = Heads{2}, .key_dim = 8, .value_dim = 8, .span = {}};
    if (with_window && i == 1) {
      cache.span = {.kind = SpanKind::kSlidingWindow, .extent = Tokens{100}};
    }
    request.target.layers.push_back({.index = LayerIndex{i}, .caches = {cache}});
  }
  request.tokens_per_block = Tokens{page};
  request.budget.kv_budget = Bytes{64 << 20};
  request.granularity = Bytes{4096};
  request.workload.max_model_len = Tokens{1000};
  return make_plan(request, CapabilityRegistry::with_known_kernels()).value();
}

}  // namespace

TEST_CASE("a sequence holds whole pages and uses the rows of its tokens") {
  // One token: 2 layers x (K and V) x 2 heads x 8 elements x 2 bytes.
  constexpr std::int64_t kToken = 2 * 2 * 2 * 8 * 2;
  const Plan plan = small_plan(64, false);
  CHECK(sequence_use(plan, Tokens{0}) == SequenceUse{});
  CHECK(sequence_use(plan, Tokens{1}) ==
        SequenceUse{.held = Bytes{64 * kToken}, .used = Bytes{kToken}});
  CHECK(sequence_use(plan, Tokens{64}).waste() == Bytes{0});
  CHECK(sequence_use(plan, Tokens{65}).waste() == Bytes{63 * kToken});
}

TEST_CASE("a window uses no more than its extent") {
  // One layer each: half of the bytes above.
  constexpr std::int64_t kToken = 2 * 2 * 8 * 2;
  const Plan plan = small_plan(32, true);
  const SequenceUse use = sequence_use(plan, Tokens{1000});
  CHECK(use.used == Bytes{1000 * kToken + 100 * kToken});
  // Full: 32 pages. Window: the newest token and 99 before it, wherever they start in a page.
  CHECK(use.held == Bytes{(32 + 4 + 1) * 32 * kToken});
}

TEST_CASE("the average sequence of a mix is weighted and rounded up") {
  const Plan plan = small_plan(64, false);
  constexpr std::int64_t kToken = 2 * 2 * 2 * 8 * 2;
  const std::vector<Tokens> lengths{Tokens{64}, Tokens{64}, Tokens{65}};
  const LengthMix mix = mix_of_sample(lengths).value();
  // 64, 64 and 128 slots over three sequences: 85 1/3.
  CHECK(average_use(plan, mix).held == Bytes{(256 * kToken + 2) / 3});
}

TEST_CASE("only full pages can be found again") {
  const std::vector<Tokens> lengths{Tokens{10}, Tokens{70}, Tokens{128}};
  const LengthMix mix = mix_of_sample(lengths).value();
  // 0 of 10, 64 of 70, 128 of 128.
  CHECK(shareable_ppm(mix, Tokens{64}) == 192 * 1'000'000 / 208);
  CHECK(shareable_ppm(mix, Tokens{1}) == 1'000'000);
  CHECK(shareable_ppm(mix, Tokens{256}) == 0);
}

}  // namespace kvpool
