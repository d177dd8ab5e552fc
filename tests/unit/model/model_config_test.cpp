// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/model/model_config.hpp>

#include "support/catch.hpp"

#include <string>

namespace kvpool {
namespace {

ModelLayer layer(std::int32_t index, std::vector<LayerCache> caches) {
  return ModelLayer{LayerIndex{index}, std::move(caches), std::nullopt};
}

AttentionCache full(std::int64_t heads, std::int64_t dim) {
  return AttentionCache{Heads{8}, Heads{heads}, dim, dim, Span{}};
}

}  // namespace

TEST_CASE("drafter kinds have names that read back") {
  for (const char* name : {"mtp", "eagle3", "dflash", "dspark", "domino", "peagle", "draft_target",
                           "pard", "ngram", "suffix_automaton"}) {
    const auto kind = parse_drafter_kind(name);
    REQUIRE(kind.has_value());
    CHECK(to_string(*kind) == name);
  }
  CHECK_FALSE(parse_drafter_kind("medusa").has_value());
  CHECK_FALSE(parse_drafter_kind("").has_value());
}

TEST_CASE("spans and state families have names") {
  CHECK(to_string(SpanKind::kFull) == "full");
  CHECK(to_string(SpanKind::kSlidingWindow) == "sliding_window");
  CHECK(to_string(SpanKind::kChunked) == "chunked");
  CHECK(to_string(SpanKind::kCross) == "cross");
  CHECK(to_string(StateFamily::kMamba2) == "mamba2");
  CHECK(to_string(StateFamily::kGatedDeltaNet) == "gated_delta_net");
  CHECK(to_string(StateFamily::kKimiDelta) == "kimi_delta");
  CHECK(to_string(StateFamily::kShortConv) == "short_conv");
}

TEST_CASE("a model knows which caches it has") {
  ModelConfig model;
  CHECK(caching_layers(model) == Layers{0});
  CHECK(describe_layers(model).empty());
  model.layers = {layer(0, {LatentCache{Heads{8}, 512, 64, Span{}}}),
                  layer(1, {LatentCache{Heads{8}, 512, 64, Span{}}, IndexerCache{128}}),
                  layer(2, {})};
  CHECK(caching_layers(model) == Layers{2});
  CHECK(has_latent_cache(model));
  CHECK_FALSE(has_recurrent_state(model));
  CHECK(describe_layers(model) == "1 x MLA 512+64, 1 x MLA 512+64 + indexer 128, 1 x no cache");
}

TEST_CASE("layers are described by what they keep") {
  ModelConfig model;
  AttentionCache window = full(2, 64);
  window.span = Span{SpanKind::kSlidingWindow, Tokens{128}};
  AttentionCache chunk = full(2, 64);
  chunk.span = Span{SpanKind::kChunked, Tokens{8192}};
  AttentionCache cross = full(2, 64);
  cross.span = Span{SpanKind::kCross, Tokens{1500}};
  AttentionCache narrow = full(4, 192);
  narrow.value_dim = 128;
  StateCache state;
  state.family = StateFamily::kKimiDelta;
  ModelLayer sharing = layer(6, {});
  sharing.shares_with = LayerIndex{0};
  model.layers = {layer(0, {window}),
                  layer(1, {chunk}),
                  layer(2, {full(2, 64), cross}),
                  layer(3, {narrow}),
                  layer(4, {state}),
                  layer(5, {state}),
                  sharing};
  CHECK(describe_layers(model) ==
        "1 x 2 KV heads x 64 window 128, 1 x 2 KV heads x 64 chunk 8192, "
        "1 x 2 KV heads x 64 + 2 KV heads x 64 cross 1500, 1 x 4 KV heads x 192/128, "
        "2 x kimi_delta, 1 x shared");
  CHECK(has_recurrent_state(model));
  CHECK_FALSE(has_latent_cache(model));
}

}  // namespace kvpool
