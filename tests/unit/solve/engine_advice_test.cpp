// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/solve/engine_advice.hpp>

#include <kvpool/io/model_config_io.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

namespace kvpool {
namespace {

const CapabilityRegistry& known() {
  static const CapabilityRegistry registry = CapabilityRegistry::with_known_kernels();
  return registry;
}

ModelConfig config(const std::string& name) {
  return io::read_model_config(std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs/" + name +
                               ".json")
      .value();
}

EngineRequest vllm(const std::string& name, std::int64_t length) {
  EngineRequest request{.engine = Engine::kVllm, .target = config(name)};
  request.settings.tokens_per_block = Tokens{16};
  request.settings.max_model_len = Tokens{length};
  request.given = {GivenKind::kMaxModelLen, length};
  return request;
}

std::vector<Advice> advice_on(const EngineRequest& request, std::int64_t sequences) {
  return advise_engine(request, predict_engine(request, known()).value(), Sequences{sequences},
                       known());
}

Bytes charged(const EngineRequest& request) {
  return EnginePrediction::total(predict_engine(request, known())->request_account);
}

}  // namespace

TEST_CASE("layer places that nothing uses are advised with their bytes") {
  // 52 layers with a window and 10 without: groups of 10, six and one of them, 8 places empty. A
  // place takes 16 tokens of 16 heads of 128, K and V, in 16 bit; a request holds
  // ceil((1024 - 1 + 8192) / 16) + 1 blocks of a windowed group.
  constexpr std::int64_t kPlace = std::int64_t{16} * 16 * 128 * 2 * 2;
  constexpr std::int64_t kBlocks = 577;
  const EngineRequest request = vllm("gemma-3-27b", 32'000);
  const auto advice = advice_on(request, 3);
  REQUIRE(advice.size() == 1);
  CHECK(advice[0].id == "padding_layers");
  CHECK(advice[0].frees == Bytes{8 * kPlace * kBlocks * 3});
  CHECK(advice[0].what.find("7 groups") != std::string::npos);
  CHECK(advice[0].what.find("8 empty places beside 62 layers") != std::string::npos);
  // Keeping windows in full has no padding either, and takes more.
  CHECK(advice[0].change.empty());
}

TEST_CASE("a drafter of its own kind that cuts the groups is named with what it takes") {
  EngineRequest request = vllm("qwen3.5-27b", 2'000);
  CHECK(advice_on(request, 1).empty());  // 48 and 16 layers: three full groups and one
  request.drafter = EngineDrafter{
      .kind = DrafterKind::kDflash, .model = config("dflash-5-full"), .num_draft_tokens = 7};
  const auto advice = advice_on(request, 2);
  REQUIRE(advice.size() == 1);
  CHECK(advice[0].change == "no --drafter");
  EngineRequest alone = request;
  alone.drafter.reset();
  CHECK(advice[0].frees == Bytes{2 * (charged(request) - charged(alone)).count()});
  CHECK(advice[0].frees.count() > 0);
}

TEST_CASE("windows in full free padding where requests are shorter than the tokens in flight") {
  // Every group takes whole blocks of the request either way; one group has no empty places.
  const EngineRequest request = vllm("gemma-3-27b", 4'000);
  const auto advice = advice_on(request, 1);
  REQUIRE(advice.size() == 1);
  CHECK(advice[0].change == "--engine-option hybrid_kv_manager=false");
  EngineRequest flat = request;
  flat.settings.hybrid_kv_manager = false;
  CHECK(advice[0].frees == charged(request) - charged(flat));
}

TEST_CASE("engines without padding layers get no such advice") {
  CHECK(advice_on(vllm("llama-3.1-8b", 8'000), 4).empty());
  for (const Engine engine : {Engine::kSglang, Engine::kTrtllm, Engine::kLlamacpp}) {
    EngineRequest request = vllm("gemma-3-27b", 32'000);
    request.engine = engine;
    CHECK(advice_on(request, 1).empty());
  }
  // Without a length there is no request to charge.
  EngineRequest request = vllm("gemma-3-27b", 32'000);
  request.settings.max_model_len.reset();
  request.given = {GivenKind::kNumBlocks, 1000};
  CHECK(advice_on(request, 1).empty());
}

}  // namespace kvpool
