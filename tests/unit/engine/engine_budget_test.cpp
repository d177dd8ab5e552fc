// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/engine/engine_budget.hpp>

#include "support/catch.hpp"
#include "support/models.hpp"

namespace kvpool {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

PlanRequest request() {
  PlanRequest out;
  out.target = test::llama_8b();
  out.budget.gpu_memory = Bytes{100 * kGiB};
  out.budget.weights = Bytes{20 * kGiB};
  out.budget.overhead = Bytes{10 * kGiB};
  return out;
}

std::int64_t kv_of(Engine engine, const EngineFractions& fractions, const PlanRequest& asked) {
  const auto ledger = engine_budget(engine, fractions, asked);
  REQUIRE(ledger.has_value());
  REQUIRE(ledger->back().name == "kv_budget");
  Bytes left = ledger->front().bytes;
  for (std::size_t i = 1; i + 1 < ledger->size(); ++i) {
    left -= (*ledger)[i].bytes;
  }
  CHECK(left == ledger->back().bytes);
  return ledger->back().bytes.count();
}

}  // namespace

TEST_CASE("fractions mean different things", "[engine]") {
  // vLLM: 0.92 of the total, weights and overhead inside: 92 - 30.
  CHECK(kv_of(Engine::kVllm, {}, request()) == 62 * kGiB);
  CHECK(kv_of(Engine::kVllm, {.version = EngineVersion{0, 20, 2}}, request()) == 60 * kGiB);
  CHECK(kv_of(Engine::kVllm, {.version = EngineVersion{0, 21, 0}}, request()) == 62 * kGiB);
  CHECK(kv_of(Engine::kVllm, {.fraction_ppm = 500'000}, request()) == 20 * kGiB);
  // TensorRT-LLM: 0.9 of what is free after the peak: of 70.
  CHECK(kv_of(Engine::kTrtllm, {}, request()) == 63 * kGiB);
  CHECK(kv_of(Engine::kTrtllm, {.fraction_ppm = 500'000}, request()) == 35 * kGiB);
  // SGLang: weights and cache inside; the overhead that was given is subtracted, too.
  CHECK(kv_of(Engine::kSglang, {.fraction_ppm = 800'000}, request()) == 50 * kGiB);
  // llama.cpp: all that is left.
  CHECK(kv_of(Engine::kLlamacpp, {}, request()) == 70 * kGiB);
}

TEST_CASE("a KV budget that is given is every engine's", "[engine]") {
  PlanRequest asked = request();
  asked.budget.kv_budget = Bytes{7 * kGiB};
  for (const Engine engine : all_engines()) {
    const auto ledger = engine_budget(engine, {.fraction_ppm = 100'000}, asked);
    REQUIRE(ledger.has_value());
    CHECK(ledger->size() == 1);
    CHECK(ledger->back().bytes == Bytes{7 * kGiB});
  }
}

TEST_CASE("SGLang computes its fraction", "[engine]") {
  // An H100 of 79.10 GiB: 512 + 1.5 * 8,192 + 128 + 2 * 512 = 13,952 MiB; (80,998 - 13,952) /
  // 80,998.
  const Bytes h100{84'932'978'278};
  CHECK(sglang_reserved_mib({}, h100, Tokens{8'192}, 512) == 13'952);
  CHECK(sglang_fraction_ppm(13'952, h100) == 828'000);
  CHECK(sglang_reserved_mib({.tensor = 8}, h100, Tokens{8'192}, 512) ==
        512 + 12'288 + 1'024 + 1'024);
  CHECK(sglang_reserved_mib({.tensor = 4, .pipeline = 4}, h100, Tokens{4'096}, 160) ==
        512 + 6'144 + 2'048 + 320);
  // With data parallel attention a large GPU keeps 10 GiB at least.
  const Parallelism dp{.attention_data_parallel = true};
  CHECK(sglang_reserved_mib(dp, h100, Tokens{2'048}, 16) == 10'240);
  CHECK(sglang_reserved_mib(dp, Bytes{48 * kGiB}, Tokens{2'048}, 16) == 512 + 3'072 + 128 + 32);
  CHECK(sglang_reserved_mib(dp, h100, Tokens{8'192}, 512) == 13'952);
  CHECK(sglang_fraction_ppm(1'000'000, h100) == 0);
}

TEST_CASE("without a GPU, its memory or a budget there is nothing to share", "[engine]") {
  PlanRequest asked;
  asked.target = test::llama_8b();
  for (const Engine engine : all_engines()) {
    CHECK_FALSE(engine_budget(engine, {}, asked).has_value());
  }
}

}  // namespace kvpool
