// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// SGLang, rule by rule.
#include "question.hpp"

namespace kvpool {
namespace {

using test::attention;
using test::figure;
using test::line;
using test::model_of;
using test::predicted;
using test::question;

EngineRequest ask(ModelConfig model, std::int64_t tokens) {
  return question(Engine::kSglang, std::move(model), GivenKind::kKvTokens, tokens);
}

/// Windows of MiMo: K rows wider than V rows, other heads than the full layers.
ModelConfig wide_keys() {
  ModelConfig model = model_of({attention(9, 4, 192), attention(39, 8, 192, 128)});
  for (ModelLayer& layer : model.layers) {
    std::get<AttentionCache>(layer.caches.front()).value_dim = 128;
  }
  return model;
}

}  // namespace

TEST_CASE("a token pool holds one page more than tokens", "[engine]") {
  EngineRequest request = ask(model_of({attention(10, 2, 128)}), 1'000);
  CHECK(figure(predicted(request), FigureKey::kAllocatedSlots) == 1'001);
  CHECK(figure(predicted(request), FigureKey::kKGib) == 1'001 * 10 * 512);
  request.settings.tokens_per_block = Tokens{64};
  request.given.value = 6'400;
  const EnginePrediction paged = predicted(request);
  CHECK(figure(paged, FigureKey::kAllocatedSlots) == 6'464);
  CHECK(figure(paged, FigureKey::kKGib) == 6'464 * 10 * 512);
  CHECK(figure(paged, FigureKey::kVGib) == 6'464 * 10 * 512);
  CHECK(figure(paged, FigureKey::kPoolBytes) == 6'464 * 10 * 1'024);
  CHECK(line(paged.pool_account, "dump_page") == -64 * 10 * 1'024);
  CHECK(EnginePrediction::total(paged.pool_account).count() == 0);
}

TEST_CASE("K and V have their own widths, windows their own pool", "[engine]") {
  EngineRequest request = ask(wide_keys(), 64'000);
  request.settings.tokens_per_block = Tokens{64};
  request.settings.tp = 4;
  const EnginePrediction prediction = predicted(request);
  // One head of the full layers and two of the windows on a rank; 0.8 of the tokens.
  CHECK(figure(prediction, FigureKey::kKGib) == std::int64_t{64'064} * 9 * 192 * 2);
  CHECK(figure(prediction, FigureKey::kVGib) == std::int64_t{64'064} * 9 * 128 * 2);
  CHECK(figure(prediction, FigureKey::kSwaTokens) == 51'200);
  CHECK(figure(prediction, FigureKey::kSwaKGib) == std::int64_t{51'264} * 39 * 2 * 192 * 2);
  CHECK(figure(prediction, FigureKey::kSwaVGib) == std::int64_t{51'264} * 39 * 2 * 128 * 2);
  // Rounded down to whole pages: 0.33 * 64,000 = 21,120 = 330 * 64; 0.335: 21,440 = 335 * 64;
  // 0.3349: 21,433.6 -> 334 pages.
  request.settings.swa_full_ratio = 0.3349;
  CHECK(figure(predicted(request), FigureKey::kSwaTokens) == 334 * 64);
  request.settings.swa_full_ratio = 0.0;
  CHECK(figure(predicted(request), FigureKey::kSwaTokens) == 0);
}

TEST_CASE("where every layer slides there is one pool", "[engine]") {
  const EnginePrediction prediction = predicted(ask(model_of({attention(10, 1, 64, 1'024)}), 100));
  CHECK(figure(prediction, FigureKey::kKGib) == 101 * 10 * 128);
  CHECK(prediction.find(FigureKey::kSwaTokens) == nullptr);
}

TEST_CASE("latent and indexer are counted apart and together", "[engine]") {
  EngineRequest request = ask(test::latent_model(61, true), 6'400);
  request.settings.tokens_per_block = Tokens{64};
  request.settings.tp = 8;
  request.settings.dp = 8;
  request.settings.dp_attention = true;
  request.settings.kv_format = test::format_of(Engine::kSglang, "fp8_ds_mla");
  const EnginePrediction prediction = predicted(request);
  CHECK(figure(prediction, FigureKey::kMlaGib) == std::int64_t{6'464} * 61 * 656);
  CHECK(figure(prediction, FigureKey::kPoolGib) == std::int64_t{6'464} * 61 * (656 + 132));
  CHECK(prediction.find(FigureKey::kKGib) == nullptr);
}

TEST_CASE("data parallel attention divides heads by tp / dp", "[engine]") {
  EngineRequest request = ask(model_of({attention(1, 8, 64)}), 99);
  request.settings.tp = 8;
  CHECK(figure(predicted(request), FigureKey::kKGib) == 100 * 128);
  request.settings.dp_attention = true;
  request.settings.dp = 4;
  CHECK(figure(predicted(request), FigureKey::kKGib) == 100 * 4 * 128);
  request.settings.dp = 8;
  CHECK(figure(predicted(request), FigureKey::kKGib) == 100 * 8 * 128);
  request.settings.dp = 3;
  CHECK(test::complaint(request) == "dp");
  // Fewer heads than ranks are replicated.
  EngineRequest few = ask(model_of({attention(1, 2, 64)}), 99);
  few.settings.tp = 8;
  CHECK(figure(predicted(few), FigureKey::kKGib) == 100 * 128);
}

TEST_CASE("state slots and one more: draft tokens do not widen them", "[engine]") {
  EngineRequest request = ask(test::hybrid_27b(), 1'000);
  request.settings.max_state_slots = 360;
  request.drafter = EngineDrafter{.kind = DrafterKind::kDflash,
                                  .model = model_of({attention(6, 8, 128)}),
                                  .num_draft_tokens = 16};
  const EnginePrediction prediction = predicted(request);
  CHECK(figure(prediction, FigureKey::kStateConvGib) == std::int64_t{361} * 48 * 10'240 * 3 * 2);
  CHECK(figure(prediction, FigureKey::kStateSsmGib) == std::int64_t{361} * 48 * 786'432 * 4);
  // Only the attention layers are in the KV pool.
  CHECK(figure(prediction, FigureKey::kPoolBytes) == std::int64_t{1'001} * 16 * 4'096);
  // Without running requests nothing is said of copies.
  CHECK(prediction.find(FigureKey::kSpecStateSsmGib) == nullptr);
}

TEST_CASE("copies of states for draft tokens", "[engine]") {
  EngineRequest request = ask(test::hybrid_27b(), 1'000);
  request.settings.max_state_slots = 64;
  request.settings.max_running_requests = 64;
  request.settings.tp = 2;
  request.drafter = EngineDrafter{.kind = DrafterKind::kDflash,
                                  .model = model_of({attention(6, 8, 128)}),
                                  .num_draft_tokens = 16};
  const EnginePrediction prediction = predicted(request);
  // (R + 1) * D * M and (R + 1) * (D + K - 2) columns, halved by tp.
  CHECK(figure(prediction, FigureKey::kSpecStateSsmGib) ==
        std::int64_t{65} * 16 * 48 * 393'216 * 4);
  CHECK(figure(prediction, FigureKey::kSpecStateConvGib) ==
        std::int64_t{65} * (16 + 4 - 2) * 48 * 5'120 * 2);
  CHECK(figure(prediction, FigureKey::kStateSsmGib) == std::int64_t{65} * 48 * 393'216 * 4);
}

TEST_CASE("a drafter's pool has as many slots and its own bytes", "[engine]") {
  EngineRequest request = ask(model_of({attention(32, 8, 128)}), 999);
  request.drafter =
      EngineDrafter{.kind = DrafterKind::kDflash, .model = model_of({attention(6, 4, 64)})};
  const EnginePrediction prediction = predicted(request);
  CHECK(figure(prediction, FigureKey::kDraftKGib) == 1'000 * 6 * 512);
  CHECK(figure(prediction, FigureKey::kDraftVGib) == 1'000 * 6 * 512);
  CHECK(figure(prediction, FigureKey::kDraftPoolBytes) == 1'000 * 6 * 1'024);
  CHECK(figure(prediction, FigureKey::kDraftNumBlocks) == 1'000);
  CHECK(figure(prediction, FigureKey::kPoolBytes) == 1'000 * 32 * 4'096);
  request.drafter = EngineDrafter{.kind = DrafterKind::kMtp, .num_layers = 1};
  CHECK(figure(predicted(request), FigureKey::kDraftKGib) == 1'000 * 2'048);
  request.drafter = EngineDrafter{.kind = DrafterKind::kEagle3};
  CHECK(predicted(request).find(FigureKey::kDraftKGib) == nullptr);
}

TEST_CASE("a budget becomes tokens by the charge of a cell", "[engine]") {
  // 10 layers of 1,024 bytes a token.
  EngineRequest request = ask(model_of({attention(10, 2, 128)}), 0);
  request.given = {GivenKind::kKvBudgetBytes, 1'024'000};
  CHECK(figure(predicted(request), FigureKey::kKvTokens) == 100);
  request.settings.tokens_per_block = Tokens{64};
  CHECK(figure(predicted(request), FigureKey::kKvTokens) == 64);
  request.settings.tokens_per_block.reset();
  // MTP: 10,240 * (1 + 1 / 10) = 11,264 a token: 90.9.
  request.drafter = EngineDrafter{.kind = DrafterKind::kMtp, .num_layers = 1};
  CHECK(figure(predicted(request), FigureKey::kKvTokens) == 90);
  // DFlash: ceil(10,240 * 15 / 10) = 15,360 whatever the draft layers take: 66.7.
  request.drafter =
      EngineDrafter{.kind = DrafterKind::kDflash, .model = model_of({attention(5, 1, 64)})};
  CHECK(figure(predicted(request), FigureKey::kKvTokens) == 66);
  // Windows by their ratio: 5 full layers and 0.5 * 5.
  request = ask(model_of({attention(5, 2, 128), attention(5, 2, 128, 128)}), 0);
  request.given = {GivenKind::kKvBudgetBytes, 1'024'000};
  request.settings.swa_full_ratio = 0.5;  // 7,680 a token: 133.3
  CHECK(figure(predicted(request), FigureKey::kKvTokens) == 133);
}

TEST_CASE("states take r / (1 + r) of a budget, or what their slots need", "[engine]") {
  // A state of 3,207,168 B, a token of 4,096 B.
  EngineRequest request = ask(model_of({test::states(1), attention(1, 4, 256)}), 0);
  request.given = {GivenKind::kKvBudgetBytes, 67'700'000};
  // 0.9 / 1.9 of it is 32,068,421: 9 slots of 28,864,512; 38,835,488 / 4,096 = 9,481.3.
  const EnginePrediction shared = predicted(request);
  CHECK(figure(shared, FigureKey::kKvTokens) == 9'481);
  CHECK(figure(shared, FigureKey::kStateSsmGib) == 10 * 3'145'728);
  request.settings.max_state_slots = 20;  // 64,143,360; 3,556,640 / 4,096 = 868.3
  CHECK(figure(predicted(request), FigureKey::kKvTokens) == 868);
  request.settings.max_state_slots = 22;
  CHECK(test::complaint(request) == "given.kv_budget_bytes");
}

TEST_CASE("figures of other engines are not given to SGLang", "[engine]") {
  EngineRequest request = ask(model_of({attention(1, 1, 64)}), 0);
  request.given = {GivenKind::kCells, 1};
  CHECK(test::complaint(request) == "given");
}

}  // namespace kvpool
