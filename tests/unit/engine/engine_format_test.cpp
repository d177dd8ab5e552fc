// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/engine/engine_format.hpp>

#include "question.hpp"

namespace kvpool {
namespace {

using test::attention;
using test::figure;
using test::latent_model;
using test::model_of;
using test::predicted;
using test::question;

/// Bytes of one token of one layer of `heads` heads of `dim` in vLLM, for one block of 16 tokens.
std::int64_t token_bytes(const std::string& format, std::int64_t heads, std::int64_t dim) {
  EngineRequest request =
      question(Engine::kVllm, model_of({attention(1, heads, dim)}), GivenKind::kNumBlocks, 1);
  request.settings.kv_format = test::format_of(Engine::kVllm, format);
  // The ends of a dense model stay unpacked: a hybrid packs all.
  if (request.settings.kv_format->rule == RowRule::kTurboquant) {
    request.target = model_of({attention(5, heads, dim)});
  }
  const EnginePrediction prediction = predicted(request);
  return figure(prediction, FigureKey::kPoolBytes) / 16;
}

/// K and V bytes of one cell of one layer in llama.cpp.
std::pair<std::int64_t, std::int64_t> cell_bytes(const std::string& format, std::int64_t heads,
                                                 std::int64_t dim,
                                                 Engine engine = Engine::kLlamacpp) {
  EngineRequest request =
      question(engine, model_of({attention(1, heads, dim)}), GivenKind::kCells, 1);
  request.settings.k_format = test::format_of(engine, format);
  request.settings.v_format = request.settings.k_format;
  const EnginePrediction prediction = predicted(request);
  return {figure(prediction, FigureKey::kKMib), figure(prediction, FigureKey::kVMib)};
}

}  // namespace

TEST_CASE("bytes of a token by format", "[engine]") {
  // 2 heads of 128: 2 (dk + dv), dk + dv, ceil(d/2) + ceil(d/16), dk + dv + 8.
  CHECK(token_bytes("bf16", 2, 128) == 1'024);
  CHECK(token_bytes("fp16", 2, 128) == 1'024);
  CHECK(token_bytes("fp8", 2, 128) == 512);
  CHECK(token_bytes("int8", 2, 128) == 512);
  CHECK(token_bytes("nvfp4", 2, 128) == 2 * 2 * (64 + 8));
  CHECK(token_bytes("int8_per_token_head", 2, 128) == 2 * (256 + 8));
  CHECK(token_bytes("fp8_per_token_head", 2, 128) == 2 * (256 + 8));
  // Widths that fill neither a byte nor a block of 16.
  CHECK(token_bytes("nvfp4", 1, 40) == 2 * (20 + 3));
  CHECK(token_bytes("nvfp4", 1, 33) == 2 * (17 + 3));
}

TEST_CASE("packed bits keep a norm and are rounded up to an even number", "[engine]") {
  const auto pair = [](const std::string& name, std::int64_t dim) {
    const PairBytes bytes = turboquant_pair(test::format_of(Engine::kVllm, name), dim, dim);
    return bytes.key.count() + bytes.value.count();
  };
  // K ceil(3 * 256 / 8) + 2, V ceil(3 * 256 / 8) + 4.
  CHECK(pair("turboquant_3bit_nc", 256) == 98 + 100);
  CHECK(pair("turboquant_k3v4_nc", 256) == 98 + 132);
  CHECK(pair("turboquant_4bit_nc", 256) == 130 + 132);
  CHECK(pair("turboquant_k8v4", 256) == 256 + 132);
  CHECK(pair("turboquant_3bit", 128) == 50 + 52);
  // ceil(3 * 20 / 8) = 8: 10 + 12; ceil(3 * 12 / 8) = 5: 7 + 9; at 8 bits 13 + 7 + 4 = 24.
  CHECK(pair("turboquant_3bit", 20) == 22);
  CHECK(pair("turboquant_3bit", 12) == 16);
  CHECK(pair("turboquant_k8v4", 13) == 24);
  CHECK(pair("turboquant_k8v4", 12) == 22);
  // 13 + ceil(4 * 14 / 8) + 4 = 24 would be even; 14 + 7 + 4 = 25 is rounded up.
  CHECK(pair("turboquant_k8v4", 14) == 26);
}

TEST_CASE("packed formats leave the ends of a dense model in 16 bit", "[engine]") {
  EngineRequest request =
      question(Engine::kVllm, model_of({attention(10, 2, 256)}), GivenKind::kNumBlocks, 1);
  request.settings.kv_format = test::format_of(Engine::kVllm, "turboquant_3bit_nc");
  // Two layers at either end of 2,048 bytes a token, six of 2 * 198.
  CHECK(figure(predicted(request), FigureKey::kPoolBytes) == 16 * (4 * 2'048 + 6 * 396));
}

TEST_CASE("a hybrid packs all of its attention layers", "[engine]") {
  EngineRequest request = question(Engine::kVllm, test::hybrid_27b(), GivenKind::kNumBlocks, 50);
  request.settings.kv_format = test::format_of(Engine::kVllm, "turboquant_3bit_nc");
  request.drafter = EngineDrafter{.kind = DrafterKind::kMtp, .num_draft_tokens = 3};
  // A state of 10,240 * 6 * 2 + 786,432 * 4 = 3,268,608 B in blocks of 16 * 792 B: 258 of them.
  CHECK(figure(predicted(request), FigureKey::kTokensPerBlock) == 4'128);
}

TEST_CASE("bytes of an MLA record by format", "[engine]") {
  const auto record = [](const std::string& format, bool indexer) {
    EngineRequest request =
        question(Engine::kVllm, latent_model(1, indexer), GivenKind::kNumBlocks, 1);
    request.settings.kv_format = test::format_of(Engine::kVllm, format);
    request.settings.tp = 8;
    return figure(predicted(request), FigureKey::kPoolBytes) / 64;
  };
  CHECK(record("bf16", false) == 1'152);
  CHECK(record("fp8", false) == 576);
  CHECK(record("int8", false) == 576);
  CHECK(record("fp8_ds_mla", false) == 656);
  // The indexer key takes 132 bytes in every format, on every rank.
  CHECK(record("bf16", true) == 1'152 + 132);
  CHECK(record("fp8", true) == 576 + 132);
  CHECK(record("fp8_ds_mla", true) == 656 + 132);
}

TEST_CASE("a block of 32 elements by type", "[engine]") {
  // 8 heads of 128: 32 blocks in a row.
  CHECK(cell_bytes("f16", 8, 128) == std::pair<std::int64_t, std::int64_t>{2'048, 2'048});
  CHECK(cell_bytes("bf16", 8, 128).first == 2'048);
  CHECK(cell_bytes("f32", 8, 128).first == 4'096);
  CHECK(cell_bytes("q8_0", 8, 128).first == 32 * 34);
  CHECK(cell_bytes("q5_1", 8, 128).first == 32 * 24);
  CHECK(cell_bytes("q5_0", 8, 128).first == 32 * 22);
  CHECK(cell_bytes("q4_1", 8, 128).first == 32 * 20);
  CHECK(cell_bytes("q4_0", 8, 128).second == 32 * 18);
  CHECK(cell_bytes("iq4_nl", 8, 128).second == 32 * 18);
  CHECK(cell_bytes("q6_0", 8, 128, Engine::kIkLlamacpp).first == 32 * 26);
  CHECK_FALSE(parse_engine_format(Engine::kLlamacpp, "q6_0").has_value());
  // The row goes over all heads: 2 heads of 80 are 5 blocks, 1 head of 80 is no whole number.
  CHECK(cell_bytes("q8_0", 2, 80).first == 5 * 34);
  EngineRequest odd =
      question(Engine::kLlamacpp, model_of({attention(1, 1, 80)}), GivenKind::kCells, 1);
  odd.settings.k_format = test::format_of(Engine::kLlamacpp, "q8_0");
  CHECK(test::complaint(odd) == "k_dtype");
}

TEST_CASE("formats are known by engine", "[engine]") {
  CHECK_FALSE(parse_engine_format(Engine::kVllm, "q8_0").has_value());
  CHECK_FALSE(parse_engine_format(Engine::kLlamacpp, "fp8").has_value());
  CHECK_FALSE(parse_engine_format(Engine::kSglang, "turboquant_5bit").has_value());
  CHECK(parse_engine_format(Engine::kTrtllm, "int8")->rule == RowRule::kPlainByte);
  CHECK(parse_engine_format(Engine::kVllm, "turboquant_k8v4_nc") !=
        parse_engine_format(Engine::kVllm, "turboquant_4bit_nc"));
  CHECK(parse_state_dtype("f32") == KvDtype::kFp32);
  CHECK(parse_state_dtype("float32") == KvDtype::kFp32);
  CHECK(parse_state_dtype("bf16") == KvDtype::kBf16);
  CHECK(parse_state_dtype("f16") == KvDtype::kFp16);
  CHECK_FALSE(parse_state_dtype("fp8").has_value());
}

TEST_CASE("keys and values cannot have a format of MLA records", "[engine]") {
  EngineRequest request =
      question(Engine::kVllm, model_of({attention(1, 1, 128)}), GivenKind::kNumBlocks, 1);
  request.settings.kv_format = test::format_of(Engine::kVllm, "fp8_ds_mla");
  CHECK(test::complaint(request) == "kv_dtype");
  // A drafter's heads beside an MLA target keep plain fp8: 128 + 128 bytes.
  request.target = latent_model(1);
  request.drafter = EngineDrafter{.kind = DrafterKind::kEagle3,
                                  .model = model_of({attention(1, 1, 128)}),
                                  .num_draft_tokens = 0};
  const EnginePrediction both = predicted(request);
  CHECK(figure(both, FigureKey::kPoolBytes) == 64 * 656);
  CHECK(figure(both, FigureKey::kDraftPoolBytes) == 64 * 256);
}

}  // namespace kvpool
