// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What the layers of well-known models need for one sequence of 131,072 tokens, to the printed
// hundredth of a GiB. Published planners differ from these by up to 85 times.
#include <kvpool/engine/engine_prediction.hpp>

#include <kvpool/io/model_config_io.hpp>

#include "question.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace kvpool {
namespace {

struct Row {
  std::string model;   // below tests/data/configs
  std::string shared;  // beside the source tree
  std::string gib;
};

const std::vector<Row> kRows{
    {"llama-3.1-70b", "meta-llama--Llama-3.1-70B-Instruct", "40.00"},
    {"", "Qwen--Qwen3-32B", "32.00"},
    {"qwen3-235b", "Qwen--Qwen3-235B-A22B", "23.50"},
    {"deepseek-v3", "deepseek-ai--DeepSeek-V3", "8.58"},
    {"deepseek-v3.2", "deepseek-ai--DeepSeek-V3.2", "9.56"},
    {"kimi-k2", "moonshotai--Kimi-K2.5", "8.58"},
    {"glm-5", "zai-org--GLM-5", "12.23"},
    {"gpt-oss-120b", "openai--gpt-oss-120b", "4.50"},
    {"gemma-4-26b", "google--gemma-4-26B-A4B", "2.70"},
    {"", "Qwen--Qwen3.5-397B-A17B", "3.93"},
    {"llama-4-scout", "meta-llama--Llama-4-Scout-17B-16E-Instruct", "7.12"},
    {"nemotron-3-super", "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8", "1.16"},
    {"mimo-v2-flash", "XiaomiMiMo--MiMo-V2-Flash", "2.84"},
    {"kimi-k3", "moonshotai--Kimi-K3", "3.79"},
};

std::string need_of(const std::string& path) {
  const auto model = io::read_model_config(path);
  if (!model.has_value()) {
    return to_string(model.error());
  }
  EngineSettings settings;
  settings.kv_format = engine_format(KvDtype::kBf16);
  settings.state_dtype = KvDtype::kFp32;
  settings.conv_state_dtype = KvDtype::kBf16;
  const auto bytes = bytes_needed(*model, settings, Tokens{131'072});
  if (!bytes.has_value()) {
    return to_string(bytes.error());
  }
  return figure_text({FigureKey::kNeededGib, *bytes}, "0.00", FigureRounding::kNearest);
}

}  // namespace

TEST_CASE("what well-known models need for 131,072 tokens, own configs", "[engine]") {
  for (const Row& row : kRows) {
    if (!row.model.empty()) {
      INFO(row.model);
      CHECK(need_of(std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs/" + row.model +
                    ".json") == row.gib);
    }
  }
}

TEST_CASE("what well-known models need for 131,072 tokens, published configs", "[engine]") {
  if (!std::filesystem::is_directory(KVPOOL_SHARED_DIR)) {
    WARN("skipped: no configs at " << KVPOOL_SHARED_DIR);
    return;
  }
  for (const Row& row : kRows) {
    INFO(row.shared);
    CHECK(need_of(std::string{KVPOOL_SHARED_DIR} + "/" + row.shared + ".json") == row.gib);
  }
}

TEST_CASE("a need beyond 64 bits is an error", "[engine]") {
  const ModelConfig model = test::model_of({test::attention(100'000, 65'536, 1'048'576)});
  const auto bytes = bytes_needed(model, {}, Tokens{std::int64_t{1} << 40});
  REQUIRE_FALSE(bytes.has_value());
  CHECK(bytes.error().code == ErrorCode::kOutOfRange);
}

TEST_CASE("every rule says what it is known from", "[engine]") {
  EngineRequest request =
      test::question(Engine::kVllm, test::hybrid_27b(), GivenKind::kKvBudgetBytes, 40 * test::kGiB);
  request.settings.max_model_len = Tokens{4'096};
  request.settings.tokens_per_block = Tokens{64};
  request.settings.max_num_seqs = 8;
  request.settings.max_running_requests = 8;
  request.settings.max_tokens = 1'000;
  request.settings.hybrid_kv_manager = false;
  std::size_t rules = 0;
  for (const Engine engine : all_engines()) {
    for (const DrafterKind kind : {DrafterKind::kDflash, DrafterKind::kDspark}) {
      for (const bool latent : {false, true}) {
        request.engine = engine;
        request.target = latent ? test::latent_model(10) : test::hybrid_27b();
        request.drafter = EngineDrafter{.kind = kind,
                                        .model = test::model_of({test::attention(5, 4, 96, 128)}),
                                        .num_draft_tokens = 7};
        for (const EngineRule& rule : test::predicted(request).rules) {
          INFO(to_string(engine) << ": " << rule.id);
          CHECK_FALSE(rule.value.empty());
          CHECK_FALSE(rule.reason.empty());
          CHECK_FALSE(rule.source.empty());
          ++rules;
        }
      }
    }
  }
  CHECK(rules > 30);
}

TEST_CASE("a prediction is a function of its request", "[engine]") {
  EngineRequest request =
      test::question(Engine::kVllm, test::hybrid_27b(), GivenKind::kKvBudgetBytes, 10 * test::kGiB);
  request.settings.max_model_len = Tokens{32'768};
  for (const Engine engine : all_engines()) {
    request.engine = engine;
    INFO(to_string(engine));
    CHECK(test::predicted(request) == test::predicted(request));
    CHECK(test::predicted(request).engine == engine);
  }
}

}  // namespace kvpool
