// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/memory_budget.hpp>

#include "support/catch.hpp"
#include "support/models.hpp"

#include <algorithm>
#include <string>

namespace kvpool {
namespace {

using test::llama_8b;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr Tokens kStep{8192};

const LedgerLine& line(const std::vector<LedgerLine>& ledger, const std::string& name) {
  for (const LedgerLine& candidate : ledger) {
    if (candidate.name == name) {
      return candidate;
    }
  }
  FAIL("no line " << name);
  return ledger.front();
}

TEST_CASE("a KV budget that is given is the whole account, and exact") {
  const auto ledger = budget_ledger({.kv_budget = Bytes{kGiB}}, {}, {}, kStep, llama_8b(), nullptr);
  REQUIRE(ledger.has_value());
  REQUIRE(ledger->size() == 1);
  CHECK((*ledger)[0].name == "kv_budget");
  CHECK((*ledger)[0].bytes == Bytes{kGiB});
  CHECK((*ledger)[0].kind == LedgerKind::kExact);
}

TEST_CASE("given numbers are subtracted exactly") {
  const auto ledger = budget_ledger({.gpu_memory = Bytes{100 * kGiB},
                                     .utilization_ppm = 900'000,
                                     .weights = Bytes{16 * kGiB},
                                     .overhead = Bytes{4 * kGiB}},
                                    {}, {}, kStep, llama_8b(), nullptr);
  REQUIRE(ledger.has_value());
  CHECK(line(*ledger, "withheld").bytes == Bytes{10 * kGiB});
  CHECK(ledger->back().name == "kv_budget");
  CHECK(ledger->back().bytes == Bytes{70 * kGiB});
  CHECK(ledger->back().kind == LedgerKind::kDerived);
}

TEST_CASE("lines sum to the device's total") {
  ModelConfig model = llama_8b();
  model.parameters = {.plain = Elements{8'000'000'000}, .basis = "8 B parameters"};
  const auto ledger =
      budget_ledger({.gpu_memory = Bytes{80 * kGiB}}, {}, {.tensor = 2}, kStep, model, nullptr);
  REQUIRE(ledger.has_value());
  Bytes sum;
  for (const LedgerLine& each : *ledger) {
    sum += each.name == "device_total" ? Bytes{0} : each.bytes;
    CHECK(each.low <= each.bytes);
    CHECK(each.bytes <= each.high);
    CHECK_FALSE(each.reason.empty());
  }
  CHECK(sum == Bytes{80 * kGiB});
  // 8e9 parameters of two bytes over two ranks.
  CHECK(line(*ledger, "weights").bytes == Bytes{8'000'000'000});
  CHECK(line(*ledger, "weights").kind == LedgerKind::kAssumed);
  CHECK(line(*ledger, "communication").bytes > Bytes{0});
}

TEST_CASE("quantised weights are counted in their own bits") {
  ModelConfig model = llama_8b();
  model.parameters = {
      .plain = Elements{1'000}, .quantized = Elements{1'000'000}, .quantized_centibits = 425};
  const auto ledger = budget_ledger({.gpu_memory = Bytes{kGiB}}, {}, {}, kStep, model, nullptr);
  REQUIRE(ledger.has_value());
  CHECK(line(*ledger, "weights").bytes == Bytes{2'000 + 531'250});
}

TEST_CASE("attention, routed experts and the rest are divided over their own ranks") {
  // 16 units: attention 2, routed experts 8, the rest 6.
  const ParameterEstimate estimate{
      .plain = Elements{8'000}, .attention = Bytes{2'000}, .routed_experts = Bytes{8'000}};
  const auto rank = [&estimate](const Parallelism& p) {
    return weight_shares(estimate, p).per_rank.count();
  };
  CHECK(rank({}) == 16'000);
  CHECK(rank({.tensor = 8}) == 2'000);
  CHECK(rank({.tensor = 8, .attention_data_parallel = true}) == 2'000 + 1'000 + 750);
  CHECK(rank({.expert = 8}) == 2'000 + 1'000 + 6'000);
  CHECK(rank({.tensor = 2, .expert = 8}) == 1'000 + 1'000 + 3'000);
  CHECK(rank({.tensor = 8, .expert = 2}) == 2'000);
  CHECK(rank({.data = 8, .expert = 8, .attention_data_parallel = true}) == 9'000);
  CHECK(rank({.tensor = 2, .pipeline = 2, .expert = 4}) == 500 + 1'000 + 1'500);
  CHECK(rank({.tensor = 3}) == 5'334);  // added first, rounded up once
  const WeightShares shares = weight_shares(estimate, {.tensor = 2, .pipeline = 2, .expert = 4});
  CHECK(shares.attention ==
        WeightShare{.stored = Bytes{2'000}, .ranks = 2, .per_rank = Bytes{500}});
  CHECK(shares.routed_experts ==
        WeightShare{.stored = Bytes{8'000}, .ranks = 4, .per_rank = Bytes{1'000}});
  CHECK(shares.rest == WeightShare{.stored = Bytes{6'000}, .ranks = 2, .per_rank = Bytes{1'500}});
}

TEST_CASE("parts above the whole by rounding never make the rest negative") {
  const ParameterEstimate estimate{
      .plain = Elements{500}, .attention = Bytes{400}, .routed_experts = Bytes{601}};
  const WeightShares shares = weight_shares(estimate, {});
  CHECK(shares.rest.stored == Bytes{0});
  CHECK(shares.per_rank == Bytes{1'000});
}

TEST_CASE("the weights' reason says how each part is divided") {
  ModelConfig model = llama_8b();
  model.parameters = {.plain = Elements{8'000},
                      .attention = Bytes{2'000},
                      .routed_experts = Bytes{8'000},
                      .basis = "b"};
  const auto reason = [&model](const Parallelism& p) {
    return line(*budget_ledger({.gpu_memory = Bytes{kGiB}}, {}, p, kStep, model, nullptr),
                "weights")
        .reason;
  };
  CHECK(reason({}) == "b; over 1 rank; --weights replaces it");
  CHECK(reason({.tensor = 8, .expert = 8}) == "b; over 8 ranks; --weights replaces it");
  CHECK(reason({.tensor = 2, .pipeline = 2, .expert = 4, .attention_data_parallel = true}) ==
        "b; 2000 bytes of attention over 2, 8000 bytes of routed experts over 8, the rest over 4 "
        "ranks; --weights replaces it");
}

TEST_CASE("activations grow in proportion to the tokens of a step") {
  const auto activations = [](std::int64_t tokens) {
    return line(*budget_ledger({.gpu_memory = Bytes{80 * kGiB}}, {}, {}, Tokens{tokens}, llama_8b(),
                               nullptr),
                "activations");
  };
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  const LedgerLine usual = activations(8192);
  CHECK(usual.bytes == Bytes{2458 * kMiB});
  CHECK(usual.low == Bytes{225 * kMiB});
  CHECK(usual.high == Bytes{7557 * kMiB});
  CHECK(usual.reason.find("8192 tokens") != std::string::npos);
  const LedgerLine twice = activations(16384);
  CHECK(twice.bytes == Bytes{2 * 2458 * kMiB});
  CHECK(twice.low == Bytes{2 * 225 * kMiB});
  CHECK(twice.high == Bytes{2 * 7557 * kMiB});
  CHECK(twice.reason.find("16384 tokens") != std::string::npos);
  CHECK(activations(2048).bytes * 4 == usual.bytes);
  CHECK(activations(0).bytes == Bytes{0});
}

TEST_CASE("communication is charged only when more than one GPU takes part") {
  const auto charged = [](const Parallelism& p) {
    const auto ledger =
        budget_ledger({.gpu_memory = Bytes{80 * kGiB}}, {}, p, kStep, llama_8b(), nullptr);
    return std::ranges::any_of(*ledger,
                               [](const LedgerLine& each) { return each.name == "communication"; });
  };
  CHECK_FALSE(charged({}));
  CHECK_FALSE(charged({.data = 8}));  // independent replicas
  CHECK_FALSE(charged({.attention_data_parallel = true}));
  CHECK(charged({.tensor = 2}));
  CHECK(charged({.pipeline = 2}));
  CHECK(charged({.data = 8, .expert = 8, .attention_data_parallel = true}));
}

TEST_CASE("without a budget, a GPU or its memory there is no account") {
  const auto ledger = budget_ledger({}, {}, {}, kStep, llama_8b(), nullptr);
  REQUIRE_FALSE(ledger.has_value());
  CHECK(ledger.error().key == "gpu");
}

TEST_CASE("weights above the memory leave a negative budget, not a wrapped one") {
  const auto ledger =
      budget_ledger({.gpu_memory = Bytes{kGiB}, .weights = Bytes{10 * kGiB}, .overhead = Bytes{0}},
                    {}, {}, kStep, llama_8b(), nullptr);
  REQUIRE(ledger.has_value());
  CHECK(ledger->back().bytes < Bytes{-8 * kGiB});
}

}  // namespace
}  // namespace kvpool
