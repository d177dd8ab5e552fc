// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/memory_budget.hpp>

#include "support/catch.hpp"
#include "support/models.hpp"

#include <string>

namespace kvpool {
namespace {

using test::llama_8b;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

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
  const auto ledger = budget_ledger({.kv_budget = Bytes{kGiB}}, {}, {}, llama_8b(), nullptr);
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
                                    {}, {}, llama_8b(), nullptr);
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
      budget_ledger({.gpu_memory = Bytes{80 * kGiB}}, {}, {.tensor = 2}, model, nullptr);
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
  const auto ledger = budget_ledger({.gpu_memory = Bytes{kGiB}}, {}, {}, model, nullptr);
  REQUIRE(ledger.has_value());
  CHECK(line(*ledger, "weights").bytes == Bytes{2'000 + 531'250});
}

TEST_CASE("without a budget, a GPU or its memory there is no account") {
  const auto ledger = budget_ledger({}, {}, {}, llama_8b(), nullptr);
  REQUIRE_FALSE(ledger.has_value());
  CHECK(ledger.error().key == "gpu");
}

TEST_CASE("weights above the memory leave a negative budget, not a wrapped one") {
  const auto ledger =
      budget_ledger({.gpu_memory = Bytes{kGiB}, .weights = Bytes{10 * kGiB}, .overhead = Bytes{0}},
                    {}, {}, llama_8b(), nullptr);
  REQUIRE(ledger.has_value());
  CHECK(ledger->back().bytes < Bytes{-8 * kGiB});
}

}  // namespace
}  // namespace kvpool
