// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/stored_share.hpp>

#include <kvpool/plan/memory_budget.hpp>

#include "support/catch.hpp"
#include "support/models.hpp"

#include <algorithm>
#include <string>

namespace kvpool {
namespace {

/// Expected, least and most of one part on `parallelism`.
struct Ends {
  std::int64_t bytes;
  std::int64_t low;
  std::int64_t high;
  friend bool operator==(const Ends&, const Ends&) = default;
};

Ends share(const WeightPart& part, const Parallelism& parallelism) {
  const StoredShare found = heaviest_share({.parts = {part}}, 4, parallelism, true);
  return {found.bytes.count(), found.low.count(), found.high.count()};
}

TEST_CASE("ranks get whole units, and the fullest rank is charged", "[plan]") {
  using enum WeightPlace;
  using enum WeightSplit;
  CHECK(share({kLayer, 0, kReplicated, 0, 0, Bytes{1000}}, {.tensor = 8}) ==
        Ends{1000, 1000, 1000});
  CHECK(share({kLayer, 0, kAttention, 10, 0, Bytes{1000}}, {.tensor = 4}) == Ends{300, 300, 300});
  CHECK(share({kLayer, 0, kAttention, 2, 0, Bytes{1000}}, {.tensor = 8}) == Ends{500, 500, 500});
  CHECK(share({kLayer, 0, kTensor, 0, 0, Bytes{1001}}, {.tensor = 2}) == Ends{501, 501, 501});
  CHECK(share({kLayer, 0, kUnsure, 0, 0, Bytes{1000}}, {.tensor = 4}) == Ends{1000, 250, 1000});
  // 8 experts of 10 units: two whole ones on each of 4 ranks, or each over 4, or 4 halves.
  const WeightPart experts{kLayer, 0, kExperts, 8, 10, Bytes{8000}};
  CHECK(share(experts, {.expert = 4}) == Ends{2000, 2000, 2000});
  CHECK(share(experts, {.tensor = 4}) == Ends{2400, 2400, 2400});
  CHECK(share(experts, {.tensor = 4, .expert = 2}) == Ends{2000, 2000, 2000});
  CHECK(share(experts, {.tensor = 2, .expert = 16}) == Ends{1000, 1000, 1000});
  // 100 rows: 50 on each of two ranks, or 64 where they are filled up to 128.
  CHECK(share({kEmbedding, 0, kTensor, 100, 0, Bytes{1000}}, {.tensor = 2}) == Ends{500, 500, 640});
  CHECK(share({kLayer, 0, kTensor, 100, 0, Bytes{1000}}, {.tensor = 2}) == Ends{500, 500, 500});
}

TEST_CASE("stages load what lives on them", "[plan]") {
  using enum WeightPlace;
  using enum WeightSplit;
  StoredWeights weights;
  const auto add = [&weights](WeightPlace place, std::int64_t layer, std::int64_t bytes) {
    weights.parts.push_back({place, layer, kReplicated, 0, 0, Bytes{bytes}});
  };
  add(kEmbedding, 0, 1);
  add(kEncoder, 0, 10);
  add(kHead, 0, 100);
  add(kNextToken, 5, 1000);
  for (std::int64_t layer = 0; layer < 5; ++layer) {
    add(kLayer, layer, 10'000 << layer);
  }
  const auto bytes = [&](std::int64_t stages, bool next_token) {
    std::vector<std::int64_t> out;
    for (const StoredShare& each : stored_shares(weights, 5, {.pipeline = stages}, next_token)) {
      CHECK(each.stage == static_cast<std::int64_t>(out.size()));
      out.push_back(each.bytes.count());
    }
    return out;
  };
  // Five layers over three stages: 2, 2, 1 as `stage_layers` deals them out.
  CHECK(stage_layers(5, 3, 1) == StageLayers{2, 2});
  CHECK(bytes(1, false) == std::vector<std::int64_t>{310'111});
  CHECK(bytes(1, true) == std::vector<std::int64_t>{311'111});
  CHECK(bytes(3, true) == std::vector<std::int64_t>{30'011, 120'000, 161'100});
  CHECK(bytes(5, false) == std::vector<std::int64_t>{10'011, 20'000, 40'000, 80'000, 160'100});
  weights.tied_embeddings = true;
  CHECK(bytes(3, false) == std::vector<std::int64_t>{30'011, 120'000, 160'101});
  CHECK(bytes(1, false) == std::vector<std::int64_t>{310'111});
  CHECK(heaviest_share(weights, 5, {.pipeline = 3}, false).stage == 2);
}

TEST_CASE("the ledger charges stored weights instead of an estimate", "[plan]") {
  ModelConfig model = test::llama_8b();
  model.weights = StoredWeights{
      .parts = {{WeightPlace::kLayer, 0, WeightSplit::kTensor, 0, 0, Bytes{4096}},
                {WeightPlace::kNextToken, 32, WeightSplit::kReplicated, 0, 0, Bytes{100}}},
      .stored = Bytes{4196},
      .tensors = 2,
      .files = 1};
  const auto line = [&model](bool next_token) {
    const auto ledger = budget_ledger({.gpu_memory = Bytes{std::int64_t{1} << 36}}, {},
                                      {.tensor = 2}, Tokens{8192}, model, nullptr, next_token);
    REQUIRE(ledger.has_value());
    return *std::ranges::find(*ledger, "weights", &LedgerLine::name);
  };
  CHECK(line(false).bytes == Bytes{2048});
  CHECK(line(true).bytes == Bytes{2148});
  CHECK(line(true).kind == LedgerKind::kExact);
  CHECK(line(true).reason == "read from 1 safetensors header: 2 tensors of 4196 bytes");
  model.weights->parts[0].split = WeightSplit::kUnsure;
  model.weights->unknown_names = {"strange"};
  CHECK(line(false).kind == LedgerKind::kAssumed);
  CHECK(line(false).low == Bytes{2048});
  CHECK(line(false).bytes == Bytes{4096});
  CHECK_THAT(line(false).reason, Catch::Contains("strange"));
}

}  // namespace
}  // namespace kvpool
