// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// TensorRT-LLM, rule by rule.
#include "question.hpp"

#include <string>
#include <vector>

namespace kvpool {
namespace {

using test::attention;
using test::figure;
using test::kGiB;
using test::line;
using test::model_of;
using test::predicted;
using test::question;

EngineRequest ask(ModelConfig model, GivenKind given, std::int64_t value) {
  EngineRequest request = question(Engine::kTrtllm, std::move(model), given, value);
  request.settings.tokens_per_block = Tokens{64};
  return request;
}

/// A DSpark drafter of five layers of 8 KV heads of 128.
EngineDrafter dspark() {
  return {.kind = DrafterKind::kDspark, .model = model_of({attention(5, 8, 128)})};
}

}  // namespace

TEST_CASE("the C++ manager rounds blocks up, the Python ones down", "[engine]") {
  // 32 layers of 32 heads of 128 in fp16: 524,288 B a token, 33,554,432 a block.
  EngineRequest request =
      ask(model_of({attention(32, 32, 128)}), GivenKind::kKvBudgetBytes, 21'153'787'674);
  const EnginePrediction up = predicted(request);
  CHECK(figure(up, FigureKey::kNumBlocks) == 631);  // 630.4
  CHECK(figure(up, FigureKey::kKvTokens) == 631 * 64);
  CHECK(line(up.pool_account, "block_rounding") == 631 * std::int64_t{33'554'432} - 21'153'787'674);
  CHECK(EnginePrediction::total(up.pool_account).count() == 0);
  for (const BlockManagerKind manager :
       {BlockManagerKind::kPythonV1, BlockManagerKind::kPythonV2}) {
    request.settings.block_manager = manager;
    CHECK(figure(predicted(request), FigureKey::kNumBlocks) == 630);
  }
}

TEST_CASE("free memory before the fraction", "[engine]") {
  // 82 blocks of 64 tokens of 262,144 B: 1.28 GiB, 0.9 of 1.42 GiB.
  EngineRequest request = ask(model_of({attention(32, 32, 128)}), GivenKind::kNumBlocks, 82);
  request.settings.kv_format = engine_format(KvDtype::kFp8E4m3);
  const EnginePrediction prediction = predicted(request);
  CHECK(figure(prediction, FigureKey::kPoolBytes) == std::int64_t{82} * 64 * 262'144);
  const EngineFigure* free = prediction.find(FigureKey::kAvailableGib);
  REQUIRE(free != nullptr);
  CHECK(std::get<PrintedRange>(free->value) == PrintedRange{std::int64_t{81} * 64 * 262'144,
                                                            std::int64_t{82} * 64 * 262'144,
                                                            900'000, false});
  request.settings.block_manager = BlockManagerKind::kPythonV1;
  CHECK(std::get<PrintedRange>(predicted(request).find(FigureKey::kAvailableGib)->value) ==
        PrintedRange{std::int64_t{82} * 64 * 262'144, std::int64_t{83} * 64 * 262'144, 900'000,
                     true});
}

TEST_CASE("V rows are as wide as K rows, and windows count in full", "[engine]") {
  ModelConfig model = model_of({attention(9, 4, 192), attention(39, 8, 192, 128)});
  for (ModelLayer& layer : model.layers) {
    std::get<AttentionCache>(layer.caches.front()).value_dim = 128;
  }
  EngineRequest request = ask(std::move(model), GivenKind::kKvTokens, 6'400);
  request.settings.tp = 4;
  // Heads per layer are summed: 9 * 1 + 39 * 2 of them on a rank.
  CHECK(figure(predicted(request), FigureKey::kPoolBytes) ==
        std::int64_t{6'400} * (9 + 78) * 2 * 192 * 2);
  request.settings.tokens_per_block.reset();
  request.given.value = 6'401;
  CHECK(figure(predicted(request), FigureKey::kPoolBytes) ==
        std::int64_t{6'401} * (9 + 78) * 2 * 192 * 2);
  CHECK(predicted(request).find(FigureKey::kNumBlocks) == nullptr);
}

TEST_CASE("nvfp4 is rounded over the heads of a layer", "[engine]") {
  // 3 heads of 72: x = 432 elements: 216 + 27. Row by row it would be 6 * (36 + 5).
  EngineRequest request = ask(model_of({attention(2, 3, 72)}), GivenKind::kNumBlocks, 1);
  request.settings.kv_format = engine_format(KvDtype::kNvfp4);
  CHECK(figure(predicted(request), FigureKey::kPoolBytes) == 64 * 2 * (216 + 27));
}

TEST_CASE("a latent with its indexer is the same on every rank", "[engine]") {
  EngineRequest request = ask(test::latent_model(61), GivenKind::kNumBlocks, 1);
  request.settings.tp = 8;
  request.settings.kv_format = engine_format(KvDtype::kFp8E4m3);
  CHECK(figure(predicted(request), FigureKey::kPoolBytes) == 64 * 61 * 576);
  request.target = test::latent_model(61, true);
  CHECK(figure(predicted(request), FigureKey::kPoolBytes) == 64 * 61 * (576 + 132));
}

TEST_CASE("the page of a standalone drafter's pool", "[engine]") {
  struct Row {
    std::int64_t target;
    std::int64_t draft;
  };
  for (const DrafterKind kind : {DrafterKind::kDspark, DrafterKind::kDflash}) {
    for (const Row& row :
         std::vector<Row>{{8, 32}, {16, 32}, {32, 32}, {48, 32}, {64, 64}, {128, 32}, {256, 32}}) {
      INFO(to_string(kind) << " beside " << row.target);
      EngineRequest request =
          ask(model_of({attention(32, 8, 128)}), GivenKind::kKvBudgetBytes, kGiB);
      request.settings.tokens_per_block = Tokens{row.target};
      request.drafter = dspark();
      request.drafter->kind = kind;
      request.drafter->backend = "TRTLLM";
      CHECK(figure(predicted(request), FigureKey::kDraftTokensPerBlock) == row.draft);
    }
  }
  // MTP and Eagle3 keep the target's, but for Eagle3 beside MiniMax-M3's 128-token blocks.
  EngineRequest request = ask(model_of({attention(32, 8, 128)}), GivenKind::kKvBudgetBytes, kGiB);
  request.settings.tokens_per_block = Tokens{128};
  request.drafter = EngineDrafter{.kind = DrafterKind::kMtp};
  CHECK(figure(predicted(request), FigureKey::kDraftTokensPerBlock) == 128);
  request.drafter = EngineDrafter{.kind = DrafterKind::kEagle3, .num_layers = 1};
  CHECK(figure(predicted(request), FigureKey::kDraftTokensPerBlock) == 128);
  request.target.model_type = "minimax_m3";
  CHECK(figure(predicted(request), FigureKey::kDraftTokensPerBlock) == 32);
}

TEST_CASE("a budget is split by the bytes of a token", "[engine]") {
  // 131,072 and 20,480 B a token; 1,000,000 tokens of both.
  const std::int64_t budget = std::int64_t{1'000'000} * (131'072 + 20'480);
  EngineRequest request = ask(model_of({attention(32, 8, 128)}), GivenKind::kKvBudgetBytes, budget);
  request.drafter = dspark();
  const EnginePrediction v2 = predicted(request);
  CHECK(figure(v2, FigureKey::kNumBlocks) == 15'625);
  CHECK(figure(v2, FigureKey::kDraftNumBlocks) == 15'625);
  CHECK(figure(v2, FigureKey::kDraftPoolBytes) == std::int64_t{1'000'000} * 20'480);
  CHECK(EnginePrediction::total(v2.pool_account).count() == 0);
  // V1 gives both the same number of tokens.
  request.settings.block_manager = BlockManagerKind::kPythonV1;
  request.settings.tokens_per_block = Tokens{128};
  request.given.value = budget - 1;  // 999,999 tokens: 7,812 and 31,249 blocks
  const EnginePrediction v1 = predicted(request);
  CHECK(figure(v1, FigureKey::kNumBlocks) == 7'812);
  CHECK(figure(v1, FigureKey::kDraftNumBlocks) == 31'249);
  // As V2 does for the drafter, within a block for the target.
  request.settings.block_manager = BlockManagerKind::kPythonV2;
  CHECK(figure(predicted(request), FigureKey::kDraftNumBlocks) == 31'249);
}

TEST_CASE("an external drafter keeps 16 bit beside an 8-bit target", "[engine]") {
  EngineRequest request = ask(model_of({attention(32, 8, 128)}), GivenKind::kNumBlocks, 100);
  request.settings.kv_format = engine_format(KvDtype::kFp8E4m3);
  request.drafter = dspark();
  CHECK(figure(predicted(request), FigureKey::kPoolBytes) == 6'400 * 65'536);
  CHECK(figure(predicted(request), FigureKey::kDraftPoolBytes) == 6'400 * 20'480);
  // MTP and Eagle3 share the target's format.
  request.drafter = EngineDrafter{.kind = DrafterKind::kMtp};
  CHECK(figure(predicted(request), FigureKey::kDraftPoolBytes) == 6'400 * 2'048);
}

TEST_CASE("the charge does not round heads up, the allocation does", "[engine]") {
  // 2 KV heads over 8 ranks: charged 128 bytes a token and layer, allocated 512.
  EngineRequest request =
      ask(model_of({attention(10, 2, 128)}), GivenKind::kKvBudgetBytes, 64'000 * 6'400);
  request.settings.tp = 8;
  request.drafter =
      EngineDrafter{.kind = DrafterKind::kDspark, .model = model_of({attention(10, 8, 128)})};
  // Slopes 10 * 128 and 10 * 512: the drafter gets 4/5 of 409,600,000, its due is half.
  const EnginePrediction prediction = predicted(request);
  CHECK(figure(prediction, FigureKey::kDraftNumBlocks) == 327'680'000 / (64 * 5'120));
  CHECK(figure(prediction, FigureKey::kNumBlocks) == 81'920'000 / (64 * 5'120));
}

TEST_CASE("where the drafter's cache lives", "[engine]") {
  EngineRequest request = ask(model_of({attention(32, 8, 128)}), GivenKind::kNumBlocks, 100);
  // Attention data parallel: MTP's layers extend the target's blocks, on all heads.
  request.settings.dp_attention = true;
  request.settings.tp = 8;
  request.drafter = EngineDrafter{.kind = DrafterKind::kMtp};
  const EnginePrediction joined = predicted(request);
  CHECK(figure(joined, FigureKey::kPoolBytes) == std::int64_t{6'400} * 131'072);
  CHECK(figure(joined, FigureKey::kDraftNumBlocks) == 100);
  CHECK(figure(joined, FigureKey::kDraftPoolBytes) == std::int64_t{6'400} * 4'096);
  // DFlash without a back-end: a private arena of (8 + 1) slots of ceil((4,096 + 8) / 32) pages.
  request.settings.max_num_seqs = 8;
  request.settings.max_model_len = Tokens{4'096};
  request.drafter = dspark();
  request.drafter->kind = DrafterKind::kDflash;
  request.drafter->num_draft_tokens = 8;
  const EnginePrediction arena = predicted(request);
  CHECK(figure(arena, FigureKey::kDraftPoolBytes) == std::int64_t{9} * 129 * 32 * 20'480);
  CHECK(arena.find(FigureKey::kDraftTokensPerBlock) == nullptr);
}

TEST_CASE("the arena that could not start", "[engine]") {
  // Kimi-K3 at TP8: 997,696 tokens, 8 requests, 2 of 16 KV heads, block 8, no cap.
  EngineRequest request = ask(test::kimi_k3(), GivenKind::kNumBlocks, 1);
  request.settings.tp = 8;
  request.settings.max_num_seqs = 8;
  request.settings.max_model_len = Tokens{997'696};
  request.drafter = EngineDrafter{.kind = DrafterKind::kDflash,
                                  .model = model_of({attention(5, 16, 64)}),
                                  .num_draft_tokens = 8};
  CHECK(figure(predicted(request), FigureKey::kDraftPoolBytes) == 22'987'653'120);
}

TEST_CASE("the field's draft pool", "[engine]") {
  // 45,440 pages of 81,920 B beside 64-token blocks.
  EngineRequest request = ask(test::kimi_k3(), GivenKind::kNumBlocks, 45'440);
  request.settings.tp = 16;
  request.drafter = EngineDrafter{.kind = DrafterKind::kDspark, .model = test::dspark_gqa(96, 16)};
  const EnginePrediction prediction = predicted(request);
  CHECK(figure(prediction, FigureKey::kDraftTokensPerBlock) == 64);
  CHECK(figure(prediction, FigureKey::kDraftNumBlocks) == 45'440);
  CHECK(figure(prediction, FigureKey::kDraftPoolBytes) == 3'722'444'800);
}

TEST_CASE("explicit windows", "[engine]") {
  // 8 layers of 1,024 B a token: windows of 128 and full, in turn.
  EngineRequest request =
      ask(model_of({attention(8, 2, 128)}), GivenKind::kKvBudgetBytes, 100 * 262'144);
  request.settings.max_model_len = Tokens{8'192};
  request.settings.max_attention_window = {Tokens{128}, Tokens{8'192}};
  // V1: half of the bytes for each window, 4 layers each: 65,536 * 4 B a block.
  request.settings.block_manager = BlockManagerKind::kPythonV1;
  CHECK(figure(predicted(request), FigureKey::kNumBlocks) == 50);
  // V2: 4 layers keep 128 tokens per request and the tokens of a step, the rest is for the others.
  request.settings.block_manager = BlockManagerKind::kPythonV2;
  request.settings.max_num_seqs = 4;
  request.settings.max_num_batched_tokens = Tokens{1'024};
  // 4,096 * (4 * 128 + 1,024) = 6,291,456 of 26,214,400; 19,922,944 / 262,144 = 76.
  CHECK(figure(predicted(request), FigureKey::kNumBlocks) == 76);
  request.given.value = 6'000'000;
  CHECK(test::complaint(request) == "max_attention_window");
}

TEST_CASE("states of running sequences come off the budget", "[engine]") {
  EngineRequest request = ask(model_of({test::states(1), attention(1, 4, 256)}),
                              GivenKind::kKvBudgetBytes, 5 * 3'207'168 + 10 * 262'144);
  request.settings.max_num_seqs = 4;  // and a dummy
  request.settings.block_manager = BlockManagerKind::kPythonV2;
  CHECK(figure(predicted(request), FigureKey::kNumBlocks) == 10);
  request.given.value = 3'207'168;
  CHECK(test::complaint(request) == "given.kv_budget_bytes");
}

TEST_CASE("max_tokens caps what a budget holds", "[engine]") {
  // 10,240 B a token, 655,360 a block; the budget holds 100 blocks.
  EngineRequest request =
      ask(model_of({attention(10, 2, 128)}), GivenKind::kKvBudgetBytes, 65'536'000);
  request.settings.max_tokens = 1'000;
  const auto blocks = [&request](BlockManagerKind manager) {
    request.settings.block_manager = manager;
    return figure(predicted(request), FigureKey::kNumBlocks);
  };
  CHECK(blocks(BlockManagerKind::kCpp) == 16);
  CHECK(blocks(BlockManagerKind::kPythonV1) == 15);
  // V2 allows for the 5 % that it keeps free: 10,240,000 / 0.95 = 10,778,948 B.
  CHECK(blocks(BlockManagerKind::kPythonV2) == 16);
  request.settings.max_tokens = 10'000;
  CHECK(blocks(BlockManagerKind::kCpp) == 100);
  request.engine = Engine::kSglang;
  request.settings.tokens_per_block = Tokens{64};
  request.settings.max_tokens = 1'000;
  CHECK(figure(predicted(request), FigureKey::kKvTokens) == 960);
}

TEST_CASE("FP4 MLA keeps 392 bytes a token and a tail per sequence", "[engine]") {
  EngineRequest request = ask(test::latent_model(61), GivenKind::kNumBlocks, 10);
  request.settings.tokens_per_block = Tokens{128};
  request.settings.kv_format = engine_format(KvDtype::kFp4Mla);
  request.settings.max_num_seqs = 8;
  request.drafter = EngineDrafter{.kind = DrafterKind::kNgram, .num_draft_tokens = 7};
  const EnginePrediction prediction = predicted(request);
  CHECK(figure(prediction, FigureKey::kPoolBytes) == 10 * 128 * 61 * 392);
  // 16 + 7 tokens of 576 elements in 16 bit, for 8 sequences and a dummy.
  CHECK(line(prediction.pool_account, "states") == -9 * 61 * 23 * 576 * 2);
}

TEST_CASE("what one request takes", "[engine]") {
  EngineRequest request = ask(model_of({attention(5, 2, 128), attention(5, 2, 128, 128)}),
                              GivenKind::kMaxModelLen, 1'000);
  const EnginePrediction prediction = predicted(request);
  CHECK(figure(prediction, FigureKey::kNeededGib) == 1'024 * 10'240);
  CHECK(line(prediction.request_account, "target_layers") == 5 * 1'024 * (1'000 + 128));
  CHECK(line(prediction.request_account, "in_full") == 5 * 1'024 * (1'000 - 128));
  CHECK(EnginePrediction::total(prediction.request_account).count() == 1'024 * 10'240);
}

}  // namespace kvpool
