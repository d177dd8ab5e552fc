// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Models written by hand, for tests that need no config file.
#pragma once

#include <kvpool/model/model_config.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace kvpool::test {

/// A model of `layers` equal layers.
inline ModelConfig uniform_model(std::int64_t layers, const std::vector<LayerCache>& caches) {
  ModelConfig model{.name = "uniform", .model_type = "uniform", .native_dtype = KvDtype::kBf16};
  for (std::int64_t i = 0; i < layers; ++i) {
    model.layers.push_back({.index = LayerIndex{static_cast<std::int32_t>(i)}, .caches = caches});
  }
  return model;
}

/// Kimi-K3: 93 layers, each fourth and the last MLA 512+64, the others KDA of 96 heads of 128.
inline ModelConfig kimi_k3() {
  const LatentCache latent{.query_heads = Heads{96}, .latent_dim = 512, .rope_dim = 64};
  const StateCache state{.family = StateFamily::kKimiDelta,
                         .conv_channels = 36'864,
                         .conv_kernel = 4,
                         .matrix_elements = 1'572'864,
                         .heads = 96};
  ModelConfig model = uniform_model(93, {state});
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (i % 4 == 3 || i + 1 == model.layers.size()) {
      model.layers[i].caches = {latent};
    }
  }
  model.name = "kimi-k3";
  model.model_type = "kimi_linear";
  model.max_positions = Tokens{1'048'576};
  model.query_heads = Heads{96};
  return model;
}

/// DSpark drafter of five full layers, head dim 64.
inline ModelConfig dspark_gqa(std::int64_t query_heads, std::int64_t kv_heads) {
  ModelConfig model = uniform_model(5, {AttentionCache{.query_heads = Heads{query_heads},
                                                       .kv_heads = Heads{kv_heads},
                                                       .key_dim = 64,
                                                       .value_dim = 64}});
  model.name = "dspark";
  model.model_type = "qwen3";
  model.max_positions = Tokens{1'048'576};
  model.drafter = DrafterTraits{.kind = DrafterKind::kDspark, .block_tokens = Tokens{7}};
  return model;
}

/// Llama-3.1-8B: 32 layers of 8 KV heads of 128.
inline ModelConfig llama_8b() {
  ModelConfig model = uniform_model(
      32, {AttentionCache{
              .query_heads = Heads{32}, .kv_heads = Heads{8}, .key_dim = 128, .value_dim = 128}});
  model.name = "llama-3.1-8b";
  model.model_type = "llama";
  model.max_positions = Tokens{131'072};
  return model;
}

/// Ten full layers and `windows` sliding ones of 1024 tokens, all of `heads` KV heads of 64.
inline ModelConfig full_and_windows(std::int64_t full, std::int64_t windows, std::int64_t heads) {
  const AttentionCache cache{
      .query_heads = Heads{heads}, .kv_heads = Heads{heads}, .key_dim = 64, .value_dim = 64};
  AttentionCache window = cache;
  window.span = {SpanKind::kSlidingWindow, Tokens{1024}};
  ModelConfig model = uniform_model(full + windows, {window});
  for (std::int64_t i = 0; i < full; ++i) {
    model.layers[static_cast<std::size_t>(i)].caches = {cache};
  }
  model.max_positions = Tokens{131'072};
  return model;
}

}  // namespace kvpool::test
