// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// llama.cpp and ik_llama.cpp, rule by rule.
#include "question.hpp"

namespace kvpool {
namespace {

using test::attention;
using test::figure;
using test::model_of;
using test::predicted;
using test::question;
using test::text;

EngineRequest ask(ModelConfig model, std::int64_t cells, Engine engine = Engine::kLlamacpp) {
  return question(engine, std::move(model), GivenKind::kCells, cells);
}

}  // namespace

TEST_CASE("streams of cells", "[engine]") {
  EngineRequest request = ask(model_of({attention(32, 8, 128)}), 8'192);
  CHECK(figure(predicted(request), FigureKey::kKMib) == 8'192 * 32 * 2'048);
  CHECK(figure(predicted(request), FigureKey::kKvMib) == std::int64_t{8'192} * 32 * 4'096);
  request.settings.n_seq_max = 4;
  CHECK(figure(predicted(request), FigureKey::kKMib) == std::int64_t{4} * 8'192 * 32 * 2'048);
  request.settings.kv_unified = true;
  CHECK(figure(predicted(request), FigureKey::kKMib) == 8'192 * 32 * 2'048);
  // Tensor parallelism does not divide it.
  request.settings.tp = 8;
  CHECK(figure(predicted(request), FigureKey::kKMib) == 8'192 * 32 * 2'048);
}

TEST_CASE("K and V each have their own type", "[engine]") {
  EngineRequest request = ask(model_of({attention(1, 8, 128)}), 1);
  request.settings.k_format = test::format_of(Engine::kLlamacpp, "f32");
  CHECK(figure(predicted(request), FigureKey::kKMib) == 4'096);
  CHECK(figure(predicted(request), FigureKey::kVMib) == 2'048);
  request.settings.k_format = test::format_of(Engine::kLlamacpp, "q8_0");
  request.settings.v_format = test::format_of(Engine::kLlamacpp, "f32");
  CHECK(figure(predicted(request), FigureKey::kKMib) == 32 * 34);
  CHECK(figure(predicted(request), FigureKey::kVMib) == 4'096);
  CHECK(figure(predicted(request), FigureKey::kKvMib) == 32 * 34 + 4'096);
}

TEST_CASE("the ring of sliding layers", "[engine]") {
  const ModelConfig model = model_of({attention(12, 8, 64, 128), attention(12, 8, 64)});
  EngineRequest request = ask(model, 131'072);
  const auto cells = [&request] { return figure(predicted(request), FigureKey::kSwaCells); };
  CHECK(cells() == 768);  // 128 + 512
  request.settings.n_ubatch = 128;
  CHECK(cells() == 256);
  request.settings.n_ubatch = 2'048;
  CHECK(cells() == 2'304);
  request.settings.n_seq_max = 4;
  CHECK(cells() == 2'304);
  request.settings.kv_unified = true;  // 4 * 128 + 2,048
  CHECK(cells() == 2'560);
  request.given.value = 1'000;  // never more than the context, rounded up
  CHECK(cells() == 1'024);
  request.given.value = 8'192;
  request.settings.n_ubatch = 500;  // 512 + 500
  CHECK(cells() == 1'024);
  request.settings.swa_cell_multiple = 32;
  CHECK(cells() == 1'024);
  request.settings.n_ubatch = 512 + 33;  // 1,057
  CHECK(cells() == 1'088);
}

TEST_CASE("sliding layers are counted apart", "[engine]") {
  EngineRequest request = ask(model_of({attention(12, 8, 64, 128), attention(10, 8, 64)}), 131'072);
  request.settings.n_seq_max = 2;
  const EnginePrediction apart = predicted(request);
  CHECK(figure(apart, FigureKey::kKMib) == std::int64_t{2} * 131'072 * 10 * 1'024);
  CHECK(figure(apart, FigureKey::kSwaKMib) == 2 * 768 * 12 * 1'024);
  CHECK(figure(apart, FigureKey::kSwaKvMib) == 2 * 768 * 12 * 2'048);
  // The other engine ignores windows.
  request.engine = Engine::kIkLlamacpp;
  const EnginePrediction flat = predicted(request);
  CHECK(figure(flat, FigureKey::kKMib) == std::int64_t{2} * 131'072 * 22 * 1'024);
  CHECK(flat.find(FigureKey::kSwaCells) == nullptr);
}

TEST_CASE("three ways to keep MLA", "[engine]") {
  EngineRequest request = ask(test::latent_model(61, true), 2'048, Engine::kIkLlamacpp);
  const auto keys = [&request] { return figure(predicted(request), FigureKey::kKMib); };
  const auto values = [&request] { return figure(predicted(request), FigureKey::kVMib); };
  request.settings.mla_mode = MlaMode::kExpanded;  // 128 heads of 192 and of 128
  CHECK(keys() == std::int64_t{2'048} * 61 * 128 * 192 * 2);
  CHECK(values() == std::int64_t{2'048} * 61 * 128 * 128 * 2);
  CHECK(text(predicted(request), FigureKey::kKMib, "0.00") == "5856.00");
  request.settings.mla_mode = MlaMode::kLatent;
  CHECK(keys() == 2'048 * 61 * 1'152);
  CHECK(values() == 0);
  request.settings.mla_mode = MlaMode::kLatentAndCopy;
  CHECK(keys() == 2'048 * 61 * 1'152);
  CHECK(values() == 2'048 * 61 * 1'024);
  request.settings.v_format = test::format_of(Engine::kIkLlamacpp, "q8_0");  // 16 blocks
  CHECK(values() == 2'048 * 61 * 16 * 34);
  request.settings.k_format = request.settings.v_format;  // 18 blocks
  CHECK(keys() == 2'048 * 61 * 18 * 34);
  // Defaults: llama.cpp keeps the latent, ik_llama.cpp the heads.
  request.settings = {};
  CHECK(keys() == std::int64_t{2'048} * 61 * 128 * 192 * 2);
  request.engine = Engine::kLlamacpp;
  CHECK(keys() == 2'048 * 61 * 1'152);
  // Heads need their widths.
  for (ModelLayer& layer : request.target.layers) {
    std::get<LatentCache>(layer.caches.front()).nope_dim = 0;
  }
  request.settings.mla_mode = MlaMode::kExpanded;
  CHECK(test::complaint(request) == "mla_mode");
}

TEST_CASE("recurrent states are 4 bytes an element, whatever the cache is", "[engine]") {
  EngineRequest request = ask(test::hybrid_27b(), 8'192);
  request.settings.k_format = test::format_of(Engine::kLlamacpp, "q8_0");
  request.settings.v_format = request.settings.k_format;
  request.settings.state_dtype = KvDtype::kBf16;
  const EnginePrediction one = predicted(request);
  CHECK(figure(one, FigureKey::kRecurrentCells) == 1);
  CHECK(figure(one, FigureKey::kRecurrentRMib) == 48 * 10'240 * 3 * 4);
  CHECK(figure(one, FigureKey::kRecurrentSMib) == 48 * 786'432 * 4);
  CHECK(text(one, FigureKey::kRecurrentRMib, "0.00") == "5.62");
  request.settings.n_seq_max = 4;
  request.settings.rollback_states = 2;
  CHECK(figure(predicted(request), FigureKey::kRecurrentCells) == 12);
  CHECK(figure(predicted(request), FigureKey::kRecurrentSMib) ==
        std::int64_t{12} * 48 * 786'432 * 4);
  request.given = {GivenKind::kNumSlots, 7};
  const EnginePrediction slots = predicted(request);
  CHECK(figure(slots, FigureKey::kRecurrentCells) == 7);
  CHECK(slots.find(FigureKey::kKMib) == nullptr);
}

TEST_CASE("an MTP drafter has a context of its own", "[engine]") {
  EngineRequest request = ask(test::hybrid_27b(), 8'192);
  request.settings.n_seq_max = 2;
  request.settings.k_format = test::format_of(Engine::kLlamacpp, "q8_0");
  request.drafter = EngineDrafter{.kind = DrafterKind::kMtp, .num_layers = 1};
  // 1,024 elements: 32 * 34 bytes of K, 2,048 of V.
  CHECK(figure(predicted(request), FigureKey::kDraftKvMib) == 2 * 8'192 * (1'088 + 2'048));
  CHECK(figure(predicted(request), FigureKey::kKMib) == 2 * 8'192 * 16 * 1'088);
}

TEST_CASE("a length becomes whole cells", "[engine]") {
  EngineRequest request = ask(model_of({attention(1, 1, 64)}), 0);
  request.given = {GivenKind::kMaxModelLen, 1'000};
  CHECK(figure(predicted(request), FigureKey::kKMib) == 1'024 * 128);
  const EnginePrediction prediction = predicted(request);
  CHECK(EnginePrediction::total(prediction.request_account).count() ==
        figure(prediction, FigureKey::kNeededGib));
  CHECK(test::line(prediction.request_account, "target_layers") == 1'000 * 256);
  // A budget gives the longest context of whole multiples.
  request.given = {GivenKind::kKvBudgetBytes, 256 * 256 * 3 + 1};
  CHECK(figure(predicted(request), FigureKey::kKvTokens) == 768);
  request.given.value = 256 * 256 - 1;
  CHECK(test::complaint(request) == "given.kv_budget_bytes");
  request.given = {GivenKind::kNumBlocks, 1};
  CHECK(test::complaint(request) == "given");
}

}  // namespace kvpool
