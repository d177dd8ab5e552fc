// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// vLLM, rule by rule. Literals are worked out beside the checks.
#include "question.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kvpool {
namespace {

using test::attention;
using test::figure;
using test::hybrid_27b;
using test::kGiB;
using test::line;
using test::model_of;
using test::predicted;
using test::question;
using test::text;

EngineRequest ask(ModelConfig model, GivenKind given, std::int64_t value) {
  return question(Engine::kVllm, std::move(model), given, value);
}

/// The drafter's layers, and no tokens drafted.
EngineDrafter drafter(ModelConfig model, std::int64_t tokens = 0) {
  return {.kind = DrafterKind::kDflash, .model = std::move(model), .num_draft_tokens = tokens};
}

/// Blocks of one request of `length`: its bytes by the bytes of a block id.
std::int64_t blocks_of(EngineRequest request, std::int64_t length) {
  request.given = {GivenKind::kMaxModelLen, length};
  const std::int64_t needed = figure(predicted(request), FigureKey::kNeededGib);
  request.given = {GivenKind::kNumBlocks, 1};
  const EnginePrediction one = predicted(request);
  const std::int64_t draft = figure(one, FigureKey::kDraftPoolBytes);
  return needed / (figure(one, FigureKey::kPoolBytes) + (draft > 0 ? draft : 0));
}

std::vector<std::int64_t> group_lengths(const EnginePrediction& prediction) {
  std::vector<std::int64_t> lengths;
  for (const EngineGroup& group : prediction.groups) {
    lengths.push_back(group.layers);
  }
  return lengths;
}

}  // namespace

TEST_CASE("layers of the full family are one group, charged exactly", "[engine]") {
  // 32 layers of 8 x 128 and one of 2 x 64: 16 tokens x (32 x 4,096 + 512).
  EngineRequest request =
      ask(model_of({attention(32, 8, 128)}), GivenKind::kKvBudgetBytes, 20 * kGiB);
  CHECK(figure(predicted(request), FigureKey::kNumBlocks) == 10'240);
  request.drafter = drafter(model_of({attention(1, 2, 64)}));
  const EnginePrediction with = predicted(request);
  CHECK(figure(with, FigureKey::kNumBlocks) == 10'200);
  CHECK(figure(with, FigureKey::kPoolBytes) == std::int64_t{10'200} * 16 * 32 * 4'096);
  CHECK(figure(with, FigureKey::kDraftPoolBytes) == std::int64_t{10'200} * 16 * 512);
  CHECK(group_lengths(with) == std::vector<std::int64_t>{33});
}

TEST_CASE("sizes of groups follow the smallest kind, or the largest where that pads little",
          "[engine]") {
  struct Row {
    std::int64_t full;
    std::int64_t windows;
    std::int64_t limit;
    std::int64_t size;     // layers of a block id
    std::int64_t padding;  // of the first kind that gets any
    std::size_t groups;
  };
  // 13 < 1.5 * 12; 18 is not below 1.5 * 12; 14 < 1.25 * 12; 15 is not.
  for (const Row& row : std::vector<Row>{{12, 12, 150, 12, 0, 2},
                                         {13, 12, 150, 13, 1, 2},
                                         {12, 17, 150, 17, 5, 2},
                                         {12, 18, 150, 12, 6, 3},
                                         {10, 16, 150, 10, 4, 3},
                                         {20, 30, 150, 20, 10, 3},
                                         {10, 52, 150, 10, 8, 7},
                                         {12, 14, 125, 14, 2, 2},
                                         {12, 15, 125, 12, 9, 3}}) {
    INFO(row.full << " full and " << row.windows << " windows at " << row.limit);
    EngineRequest request =
        ask(model_of({attention(row.full, 8, 64), attention(row.windows, 8, 64, 128)}),
            GivenKind::kNumBlocks, 1);
    request.settings.group_padding_limit = row.limit;
    const EnginePrediction prediction = predicted(request);
    CHECK(figure(prediction, FigureKey::kPoolBytes) == row.size * 16 * 2'048);
    CHECK(figure(prediction, FigureKey::kPaddingLayers) == row.padding);
    CHECK(prediction.groups.size() == row.groups);
  }
}

TEST_CASE("padding is relative to the layers of its kind", "[engine]") {
  const EnginePrediction gemma = predicted(
      ask(model_of({attention(52, 8, 64, 128), attention(10, 8, 64)}), GivenKind::kNumBlocks, 1));
  // 6 groups of 10 for 52 layers.
  CHECK(text(gemma, FigureKey::kPaddingLayersPercent, "0.00") == "15.38");
  // Layers go to groups in turn.
  CHECK(group_lengths(gemma) == std::vector<std::int64_t>{9, 9, 9, 9, 8, 8, 10});
}

TEST_CASE("layers of equal bytes and other heads are another kind", "[engine]") {
  // 2 x 256 of the target and 4 x 128 of the drafter: 2,048 bytes a token each.
  EngineRequest request =
      ask(model_of({test::states(48), attention(16, 2, 256)}), GivenKind::kNumBlocks, 1);
  request.drafter = drafter(model_of({attention(5, 4, 128)}), 5);
  const EnginePrediction prediction = predicted(request);
  // Groups of 5: 10 for 48 states, 4 for 16 layers, 1 for the drafter.
  CHECK(prediction.groups.size() == 15);
  CHECK(figure(prediction, FigureKey::kPaddingLayers) == 2);
  request.drafter = drafter(model_of({attention(5, 2, 256)}), 5);
  // Of the target's own kind: 21 beside 48 states.
  CHECK(predicted(request).groups.size() == 4);
}

TEST_CASE("a smaller page that divides the largest gets a larger block", "[engine]") {
  EngineRequest request =
      ask(model_of({attention(32, 8, 128)}), GivenKind::kKvBudgetBytes, 20 * kGiB);
  request.drafter = drafter(model_of({attention(1, 2, 64, 128)}));
  const EnginePrediction prediction = predicted(request);
  // Pages of 65,536 B; 512 bytes a token fill one with 128 tokens. 33 groups of one layer.
  CHECK(figure(prediction, FigureKey::kNumBlocks) == 327'680);
  CHECK(prediction.groups.size() == 33);
  CHECK(prediction.groups.back().tokens_per_block == Tokens{128});
  CHECK(figure(prediction, FigureKey::kDraftTokensPerBlock) == 128);
}

TEST_CASE("a page that does not divide the largest is padded, and that is said", "[engine]") {
  EngineRequest request =
      ask(model_of({attention(32, 8, 128)}), GivenKind::kKvBudgetBytes, 20 * kGiB);
  request.drafter = drafter(model_of({attention(4, 4, 96, 128)}));
  const EnginePrediction prediction = predicted(request);
  // 4 * 96 * 2 * 2 * 16 = 24,576 B in 65,536 B; groups of 4 layers.
  CHECK(figure(prediction, FigureKey::kNumBlocks) == 20 * kGiB / (4 * 65'536));
  CHECK(prediction.groups.back().tokens_per_block == Tokens{16});
  bool said = false;
  for (const EngineRule& rule : prediction.rules) {
    said = said || rule.id == "padded_pages";
  }
  CHECK(said);
}

TEST_CASE("the block of a hybrid grows until a page holds a state", "[engine]") {
  // State: 10,240 * 3 * 2 + 786,432 * 4 = 3,207,168 B.
  EngineRequest request = ask(hybrid_27b(), GivenKind::kNumBlocks, 1);
  // bf16: 4 * 256 * 2 * 2 = 4,096 bytes a token; 3,207,168 / 65,536 = 48.9.
  CHECK(figure(predicted(request), FigureKey::kTokensPerBlock) == 49 * 16);
  // fp8: half the bytes, twice the block: 98 * 32,768 = 3,211,264, 0.13 % more than the state.
  request.settings.kv_format = engine_format(KvDtype::kFp8E4m3);
  const EnginePrediction eight = predicted(request);
  CHECK(figure(eight, FigureKey::kTokensPerBlock) == 1'568);
  CHECK(text(eight, FigureKey::kStatePaddingPercent, "0.00") == "0.13");
  CHECK(figure(eight, FigureKey::kPoolBytes) == 16 * 3'211'264);
  // An asked block that is larger already stays.
  request.settings.tokens_per_block = Tokens{2'000};
  CHECK(figure(predicted(request), FigureKey::kTokensPerBlock) == 2'000);
  // And is the step: 1,000 tokens of 2,048 B hold no state, 2,000 do.
  request.settings.tokens_per_block = Tokens{1'000};
  CHECK(figure(predicted(request), FigureKey::kTokensPerBlock) == 2'000);
}

TEST_CASE("tensor parallelism leaves the block alone while it divides the heads", "[engine]") {
  EngineRequest request = ask(hybrid_27b(), GivenKind::kNumBlocks, 1);
  for (const std::int64_t tp : {1, 2, 4}) {
    request.settings.tp = tp;
    CHECK(figure(predicted(request), FigureKey::kTokensPerBlock) == 784);
  }
  // 4 heads over 8 ranks are one each, the state an eighth: 400,896 / 16,384 = 24.5.
  request.settings.tp = 8;
  CHECK(figure(predicted(request), FigureKey::kTokensPerBlock) == 25 * 16);
}

TEST_CASE("a latent is not divided, so its block shrinks with more ranks", "[engine]") {
  // Kimi-K3: 36,864 * 3 * 2 + 1,572,864 * 4 = 6,512,640 B; 64 * 1,152 = 73,728 B.
  EngineRequest request = ask(test::kimi_k3(), GivenKind::kNumBlocks, 1);
  CHECK(figure(predicted(request), FigureKey::kTokensPerBlock) == 89 * 64);
  request.settings.tp = 16;  // 407,040 B: 5.5
  CHECK(figure(predicted(request), FigureKey::kTokensPerBlock) == 6 * 64);
  request.settings.tokens_per_block = Tokens{16};  // 18,432 B: 22.08
  CHECK(figure(predicted(request), FigureKey::kTokensPerBlock) == 23 * 16);
}

TEST_CASE("types of the states are those of the deployment", "[engine]") {
  EngineRequest request = ask(hybrid_27b(), GivenKind::kNumBlocks, 1);
  for (ModelLayer& layer : request.target.layers) {
    if (auto* state = std::get_if<StateCache>(&layer.caches.front())) {
      state->matrix_dtype = KvDtype::kFp32;
    }
  }
  request.settings.state_dtype = KvDtype::kBf16;  // 61,440 + 1,572,864 = 1,634,304 B: 24.9
  CHECK(figure(predicted(request), FigureKey::kTokensPerBlock) == 25 * 16);
  request.settings.conv_state_dtype = KvDtype::kFp32;  // 122,880 + 1,572,864 = 1,695,744: 25.9
  CHECK(figure(predicted(request), FigureKey::kTokensPerBlock) == 26 * 16);
}

TEST_CASE("draft tokens widen the convolution state", "[engine]") {
  EngineRequest request = ask(hybrid_27b(), GivenKind::kNumBlocks, 1);
  request.drafter = EngineDrafter{.kind = DrafterKind::kMtp, .num_draft_tokens = 3};
  // 10,240 * 6 * 2 + 3,145,728 = 3,268,608 B: 49.9 blocks of 65,536.
  const EnginePrediction prediction = predicted(request);
  CHECK(figure(prediction, FigureKey::kTokensPerBlock) == 800);
  // 17 attention layers beside 48 states: groups of 17.
  CHECK(figure(prediction, FigureKey::kPaddingLayers) == 3);
  CHECK(text(prediction, FigureKey::kPaddingLayersPercent, "0.00") == "6.25");
  // Without their number nothing can be said of a hybrid.
  request.drafter->num_draft_tokens.reset();
  CHECK(test::complaint(request) == "drafter.num_draft_tokens");
}

TEST_CASE("blocks of one request, kind by kind", "[engine]") {
  EngineRequest full = ask(model_of({attention(2, 1, 64)}), GivenKind::kNumBlocks, 1);
  CHECK(blocks_of(full, 1) == 1);
  CHECK(blocks_of(full, 16) == 1);
  CHECK(blocks_of(full, 17) == 2);
  full.settings.dcp = 4;  // a rank holds 5 of 17 tokens, 17 of 65
  CHECK(blocks_of(full, 17) == 1);
  CHECK(blocks_of(full, 65) == 2);

  EngineRequest window = ask(model_of({attention(2, 1, 64, 128)}), GivenKind::kNumBlocks, 1);
  window.settings.max_num_batched_tokens = Tokens{1'024};
  // ceil(min(127 + 1,024, L) / 16) + 1.
  CHECK(blocks_of(window, 100) == 7 + 1);
  CHECK(blocks_of(window, 10'000) == 72 + 1);
  window.settings.max_concurrent_batches = 2;  // 127 + 2,048
  CHECK(blocks_of(window, 10'000) == 136 + 1);
  window.settings.hybrid_kv_manager = false;
  CHECK(blocks_of(window, 10'000) == 625);

  EngineRequest chunk = ask(model_of({attention(2, 1, 64)}), GivenKind::kNumBlocks, 1);
  for (ModelLayer& layer : chunk.target.layers) {
    std::get<AttentionCache>(layer.caches.front()).span = {SpanKind::kChunked, Tokens{8'192}};
  }
  chunk.settings.max_num_batched_tokens = Tokens{1'024};
  // ceil(min(8,192 + 1,024, L) / 16).
  CHECK(blocks_of(chunk, 100) == 7);
  CHECK(blocks_of(chunk, 100'000) == 576);
}

TEST_CASE("a request holds two states and one per draft token", "[engine]") {
  // One layer of each kind: two groups. 16 tokens of 4,096 B hold no state; 784 do.
  EngineRequest request =
      ask(model_of({test::states(1), attention(1, 4, 256)}), GivenKind::kNumBlocks, 1);
  CHECK(blocks_of(request, 784) == 2 + 1);
  request.settings.prefix_caching = false;
  CHECK(blocks_of(request, 784) == 1 + 1);
  // MTP adds an attention layer: two groups of one for the two full layers would be three; 2 is
  // not below 1.5 * 1.
  request.drafter = EngineDrafter{.kind = DrafterKind::kMtp, .num_draft_tokens = 3};
  CHECK(blocks_of(request, 800) == (3 + 1) + 1 + 1);
  request.settings.prefix_caching = true;
  CHECK(blocks_of(request, 800) == (3 + 2) + 1 + 1);
}

TEST_CASE("cross attention is charged the encoder's budget, else its positions", "[engine]") {
  ModelConfig model = model_of({attention(32, 20, 64)});
  for (ModelLayer& layer : model.layers) {
    AttentionCache cross = std::get<AttentionCache>(layer.caches.front());
    cross.span = {SpanKind::kCross, Tokens{1'500}};
    layer.caches.emplace_back(cross);
  }
  EngineRequest request = ask(std::move(model), GivenKind::kNumBlocks, 4'153);
  request.settings.max_model_len = Tokens{448};
  request.settings.token_report = TokenReport::kBlocks;
  CHECK(blocks_of(request, 448) == 28 + 94);
  request.settings.encoder_budget_tokens = Tokens{2'048};
  CHECK(blocks_of(request, 448) == 28 + 128);
  const EnginePrediction whisper = predicted(request);
  CHECK(text(whisper, FigureKey::kMaxConcurrency, "0.00") == "26.62");
  CHECK(figure(whisper, FigureKey::kKvTokens) == 33'216);
  // Others do not size it.
  request.engine = Engine::kSglang;
  CHECK(test::complaint(request) == "model");
}

TEST_CASE("two ways to print tokens", "[engine]") {
  EngineRequest request = ask(hybrid_27b(), GivenKind::kNumBlocks, 423);
  request.settings.tp = 2;
  request.settings.kv_format = engine_format(KvDtype::kFp8E4m3);
  request.settings.max_model_len = Tokens{262'144};
  request.drafter = EngineDrafter{.kind = DrafterKind::kMtp, .num_draft_tokens = 3};
  // Blocks of 1,600; groups 3 + 1; a request holds 3 * 5 + 164 = 179.
  const EnginePrediction requests = predicted(request);
  CHECK(figure(requests, FigureKey::kKvTokens) == 619'479);
  CHECK(text(requests, FigureKey::kMaxConcurrency, "0.00") == "2.36");
  request.settings.token_report = TokenReport::kBlocks;  // 423 / 4 = 105 blocks of 1,600
  CHECK(figure(predicted(request), FigureKey::kKvTokens) == 168'000);
}

TEST_CASE("decode-context ranks multiply the printed tokens", "[engine]") {
  EngineRequest request = ask(test::latent_model(61), GivenKind::kNumBlocks, 11'173);
  request.settings.token_report = TokenReport::kBlocks;
  CHECK(figure(predicted(request), FigureKey::kKvTokens) == 11'173 * 64);
  request.settings.dcp = 8;
  CHECK(figure(predicted(request), FigureKey::kKvTokens) == 11'173 * 64 * 8);
}

TEST_CASE("printed tokens lead back to the smallest number of blocks", "[engine]") {
  EngineRequest request = ask(hybrid_27b(), GivenKind::kKvTokens, 619'479);
  request.settings.tp = 2;
  request.settings.kv_format = engine_format(KvDtype::kFp8E4m3);
  request.settings.max_model_len = Tokens{262'144};
  request.drafter = EngineDrafter{.kind = DrafterKind::kMtp, .num_draft_tokens = 3};
  CHECK(figure(predicted(request), FigureKey::kNumBlocks) == 423);
  // Between two numbers of blocks nothing prints.
  request.given.value = 619'480;
  CHECK(test::complaint(request) == "given.kv_tokens");
  request.settings.token_report = TokenReport::kBlocks;
  request.given.value = 168'000;
  CHECK(figure(predicted(request), FigureKey::kNumBlocks) == 420);
  request.given.value = 168'001;
  CHECK(test::complaint(request) == "given.kv_tokens");
  // By concurrency a length is needed.
  request.settings.token_report = TokenReport::kConcurrency;
  request.settings.max_model_len.reset();
  CHECK(test::complaint(request) == "max_model_len");
}

TEST_CASE("the longest request that fits is where its blocks are used up", "[engine]") {
  EngineRequest request =
      ask(model_of({attention(12, 8, 64), attention(12, 8, 64, 128)}), GivenKind::kNumBlocks, 700);
  request.settings.max_model_len = Tokens{131'072};
  // 521 blocks of the window at most (127 + 8,192 tokens), so 179 full ones are left: but the
  // window is not full then. ceil(L/16) + ceil(min(8,319, L)/16) + 1 <= 700: L = 5,584.
  CHECK(figure(predicted(request), FigureKey::kMaxLenThatFits) == 5'584);
  CHECK(blocks_of(request, 5'584) == 699);
  CHECK(blocks_of(request, 5'585) == 701);
  request.given.value = 2'000;  // 521 + 1,479
  CHECK(figure(predicted(request), FigureKey::kMaxLenThatFits) == 1'479 * 16);
  request.settings.max_model_len = Tokens{1'000};
  CHECK(figure(predicted(request), FigureKey::kMaxLenThatFits) == 1'000);
  request.given.value = 1;
  CHECK(figure(predicted(request), FigureKey::kMaxLenThatFits) == 0);
}

TEST_CASE("the largest pipeline stage sets the bytes of a block id", "[engine]") {
  // 62 layers over 4 stages: 15, 16, 16, 15; a drafter runs behind the last.
  EngineRequest request = ask(model_of({attention(62, 1, 64)}), GivenKind::kNumBlocks, 10);
  request.settings.pp = 4;
  CHECK(figure(predicted(request), FigureKey::kPoolBytes) == 10 * 16 * 16 * 256);
  request.drafter =
      EngineDrafter{.kind = DrafterKind::kMtp, .num_draft_tokens = 0, .num_layers = 2};
  const EnginePrediction last = predicted(request);
  CHECK(figure(last, FigureKey::kPoolBytes) == 10 * 16 * 15 * 256);
  CHECK(figure(last, FigureKey::kDraftPoolBytes) == 10 * 16 * 2 * 256);
  // Groups over the whole model: 30 windows in turn to 3 groups, 10 full: over 2 stages of 20
  // layers the first has 7 of a group of windows, the second the 10 full ones.
  request =
      ask(model_of({attention(30, 1, 64, 128), attention(10, 1, 64)}), GivenKind::kNumBlocks, 1);
  request.settings.pp = 2;
  CHECK(figure(predicted(request), FigureKey::kPoolBytes) == 10 * 16 * 256);
}

TEST_CASE("windows without the hybrid manager are full attention", "[engine]") {
  EngineRequest request = ask(model_of({attention(10, 8, 64), attention(52, 8, 64, 128)}),
                              GivenKind::kMaxModelLen, 1'024);
  request.settings.hybrid_kv_manager = false;
  const EnginePrediction prediction = predicted(request);
  CHECK(prediction.groups.size() == 1);
  CHECK(figure(prediction, FigureKey::kNeededGib) == std::int64_t{62} * 2'048 * 1'024);
}

TEST_CASE("an unknown drafter leaves bytes unsaid", "[engine]") {
  EngineRequest request = ask(model_of({attention(32, 8, 128)}), GivenKind::kNumBlocks, 100);
  request.settings.max_model_len = Tokens{160};
  request.drafter = EngineDrafter{.kind = DrafterKind::kEagle3, .num_draft_tokens = 2};
  const EnginePrediction unknown = predicted(request);
  CHECK(unknown.find(FigureKey::kBudgetGib) == nullptr);
  CHECK(unknown.find(FigureKey::kNeededGib) == nullptr);
  CHECK(text(unknown, FigureKey::kMaxConcurrency, "0.00") == "10.00");
  // With a number of layers they are copies of the target's.
  request.drafter->num_layers = 1;
  CHECK(figure(predicted(request), FigureKey::kDraftPoolBytes) == std::int64_t{100} * 16 * 4'096);
  // A drafter that keeps no cache is known.
  request.drafter = EngineDrafter{.kind = DrafterKind::kNgram, .num_draft_tokens = 2};
  CHECK(predicted(request).find(FigureKey::kBudgetGib) != nullptr);
}

TEST_CASE("MTP copies the full attention layer, the indexer with it", "[engine]") {
  EngineRequest request = ask(test::latent_model(61, true), GivenKind::kNumBlocks, 1);
  request.drafter = EngineDrafter{.kind = DrafterKind::kMtp, .num_draft_tokens = 1};
  CHECK(figure(predicted(request), FigureKey::kDraftPoolBytes) == 64 * (1'152 + 132));
  // As many as the checkpoint has, unless told otherwise.
  request.target.mtp_layers = Layers{3};
  request.target.mtp_layer = request.target.layers.front().caches;
  CHECK(figure(predicted(request), FigureKey::kDraftPoolBytes) == 3 * 64 * (1'152 + 132));
  request.drafter->num_layers = 1;
  CHECK(figure(predicted(request), FigureKey::kDraftPoolBytes) == 64 * (1'152 + 132));
  request =
      ask(model_of({attention(12, 8, 64, 128), attention(12, 8, 64)}), GivenKind::kNumBlocks, 1);
  request.drafter = EngineDrafter{.kind = DrafterKind::kMtp, .num_draft_tokens = 0};
  CHECK(figure(predicted(request), FigureKey::kPaddingLayers) == 1);
}

TEST_CASE("the account of a request leads from what its layers need to the charge", "[engine]") {
  EngineRequest request = ask(hybrid_27b(), GivenKind::kNumBlocks, 2'000);
  request.settings.max_model_len = Tokens{100'000};
  request.settings.kv_format = engine_format(KvDtype::kBf16);
  request.drafter = drafter(model_of({attention(5, 8, 128, 2'048)}), 7);
  const EnginePrediction prediction = predicted(request);
  CHECK(EnginePrediction::total(prediction.request_account).count() ==
        figure(prediction, FigureKey::kNeededGib));
  // 16 layers of 4,096 B a token and 48 states of 3,207,168 B; 5 windows of 2,048 tokens.
  CHECK(line(prediction.request_account, "target_layers") ==
        std::int64_t{100'000} * 16 * 4'096 + std::int64_t{48} * 3'207'168);
  CHECK(line(prediction.request_account, "draft_layers") == std::int64_t{5} * 2'048 * 4'096);
  CHECK(line(prediction.request_account, "padding_layers") > 0);
  CHECK(EnginePrediction::total(prediction.pool_account).count() == 0);
  CHECK(bytes_needed(request.target, request.settings, Tokens{100'000})->count() ==
        line(prediction.request_account, "target_layers"));
}

TEST_CASE("a null block is part of the pool, and less than a block is left", "[engine]") {
  EngineRequest request = ask(model_of({attention(1, 1, 64)}), GivenKind::kKvBudgetBytes, 40'959);
  const EnginePrediction prediction = predicted(request);
  CHECK(figure(prediction, FigureKey::kNumBlocks) == 9);  // of 4,096 B
  CHECK(line(prediction.pool_account, "less_than_a_block") == -4'095);
  request.given.value = 4'095;
  CHECK(figure(predicted(request), FigureKey::kNumBlocks) == 0);
}

TEST_CASE("settings outside their range are refused by name", "[engine]") {
  const EngineRequest good = ask(model_of({attention(2, 1, 64)}), GivenKind::kNumBlocks, 1);
  const auto with = [&good](auto change) {
    EngineRequest request = good;
    change(request);
    return test::complaint(request);
  };
  CHECK(with([](EngineRequest&) {}).empty());
  CHECK(with([](EngineRequest& r) { r.settings.tp = 0; }) == "tp");
  CHECK(with([](EngineRequest& r) { r.settings.pp = 3; }) == "pp");
  CHECK(with([](EngineRequest& r) { r.settings.dcp = -1; }) == "dcp");
  CHECK(with([](EngineRequest& r) { r.settings.tokens_per_block = Tokens{0}; }) ==
        "tokens_per_block");
  CHECK(with([](EngineRequest& r) { r.settings.max_model_len = Tokens{0}; }) == "max_model_len");
  CHECK(with([](EngineRequest& r) { r.given.value = -1; }) == "given");
  CHECK(with([](EngineRequest& r) { r.given.kind = GivenKind::kCells; }) == "given");
  CHECK(with([](EngineRequest& r) { r.given.kind = GivenKind::kNumSlots; }) == "given");
  CHECK(with([](EngineRequest& r) { r.target.layers.clear(); }) == "model");
  CHECK(with([](EngineRequest& r) {
          r.drafter = EngineDrafter{.kind = DrafterKind::kMtp, .num_layers = -1};
        }) == "drafter.num_layers");
}

TEST_CASE("a state without bytes is no cache", "[engine]") {
  // A short convolution of kernel 1 keeps no column and has no matrix.
  const StateCache empty{.family = StateFamily::kShortConv, .conv_channels = 64, .conv_kernel = 1};
  const EngineRequest request =
      ask(test::uniform_model(3, {empty}), GivenKind::kKvBudgetBytes, kGiB);
  CHECK(test::complaint(request) == "model");
}

TEST_CASE("numbers beyond 64 bits in double precision stay at the end", "[engine]") {
  EngineRequest request =
      ask(model_of({attention(1, 1, 1)}), GivenKind::kKvBudgetBytes, std::int64_t{1} << 60);
  request.settings.max_model_len = Tokens{1};
  CHECK(figure(predicted(request), FigureKey::kKvTokens) == std::int64_t{1} << 54);
  request.settings.tokens_per_block = Tokens{1};
  request.given = {GivenKind::kNumBlocks, std::int64_t{1} << 40};
  request.settings.max_model_len = Tokens{std::int64_t{1} << 40};
  CHECK(figure(predicted(request), FigureKey::kKvTokens) == std::int64_t{1} << 40);
  EngineRequest wide =
      question(Engine::kSglang, model_of({attention(1, 1, 1), attention(1, 1, 1, 8)}),
               GivenKind::kKvTokens, std::int64_t{1} << 40);
  wide.settings.swa_full_ratio = 1e6;
  CHECK(figure(predicted(wide), FigureKey::kSwaTokens) == (std::int64_t{1} << 40) * 1'000'000);
}

TEST_CASE("a pool beyond 64 bits is an error, not a wrong number", "[engine]") {
  EngineRequest request = ask(model_of({attention(1'000, 65'536, 1'048'576)}),
                              GivenKind::kNumBlocks, std::int64_t{1} << 40);
  const auto prediction = predict_engine(request, CapabilityRegistry::with_known_kernels());
  REQUIRE_FALSE(prediction.has_value());
  CHECK(prediction.error().code == ErrorCode::kOutOfRange);
}

}  // namespace kvpool
