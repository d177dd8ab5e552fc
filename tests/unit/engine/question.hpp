// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Questions to engines and their answers, in few words.
#pragma once

#include <kvpool/engine/engine_prediction.hpp>

#include "support/catch.hpp"
#include "support/models.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::test {

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// `layers` attention layers of `heads` KV heads of `dim`, with a window if it is not 0.
inline std::vector<ModelLayer> attention(std::int64_t layers, std::int64_t heads, std::int64_t dim,
                                         std::int64_t window = 0) {
  AttentionCache cache{
      .query_heads = Heads{heads}, .kv_heads = Heads{heads}, .key_dim = dim, .value_dim = dim};
  if (window > 0) {
    cache.span = {SpanKind::kSlidingWindow, Tokens{window}};
  }
  return {static_cast<std::size_t>(layers), ModelLayer{.caches = {cache}}};
}

/// Gated delta nets of a 27B model: 10,240 convolution channels, kernel 4, 786,432 elements.
inline std::vector<ModelLayer> states(std::int64_t layers) {
  const StateCache state{.family = StateFamily::kGatedDeltaNet,
                         .conv_channels = 10'240,
                         .conv_kernel = 4,
                         .matrix_elements = 786'432,
                         .heads = 48};
  return {static_cast<std::size_t>(layers), ModelLayer{.caches = {state}}};
}

/// Layers of several kinds, one behind the other.
inline ModelConfig model_of(const std::vector<std::vector<ModelLayer>>& parts) {
  ModelConfig model{.name = "made up", .model_type = "made_up", .native_dtype = KvDtype::kBf16};
  for (const std::vector<ModelLayer>& part : parts) {
    for (ModelLayer layer : part) {
      layer.index = LayerIndex{static_cast<std::int32_t>(model.layers.size())};
      model.layers.push_back(std::move(layer));
    }
  }
  return model;
}

/// 16 full layers of 4 heads of 256 and 48 gated delta nets, as Qwen3.6-27B.
inline ModelConfig hybrid_27b() { return model_of({states(48), attention(16, 4, 256)}); }

/// A latent of 512 + 64 in every layer, heads of 128 and 128 before compression.
inline ModelConfig latent_model(std::int64_t layers, bool indexer = false) {
  const LatentCache latent{.query_heads = Heads{128},
                           .latent_dim = 512,
                           .rope_dim = 64,
                           .span = {},
                           .nope_dim = 128,
                           .value_dim = 128};
  std::vector<LayerCache> caches{latent};
  if (indexer) {
    caches.emplace_back(IndexerCache{128});
  }
  return uniform_model(layers, caches);
}

inline EngineRequest question(Engine engine, ModelConfig model, GivenKind given,
                              std::int64_t value) {
  EngineRequest request;
  request.engine = engine;
  request.target = std::move(model);
  request.given = {given, value};
  return request;
}

inline EngineFormat format_of(Engine engine, const std::string& name) {
  const auto format = parse_engine_format(engine, name);
  REQUIRE(format.has_value());
  return *format;
}

inline EnginePrediction predicted(const EngineRequest& request) {
  const auto prediction = predict_engine(request, CapabilityRegistry::with_known_kernels());
  if (!prediction.has_value()) {
    FAIL(to_string(prediction.error()));
  }
  return *prediction;
}

/// Key of the setting that an engine complains about, or empty.
inline std::string complaint(const EngineRequest& request) {
  const auto prediction = predict_engine(request, CapabilityRegistry::with_known_kernels());
  return prediction.has_value() ? std::string{} : prediction.error().key;
}

/// A whole number or the bytes of a size; -1 where the figure is not predicted.
inline std::int64_t figure(const EnginePrediction& prediction, FigureKey key) {
  const EngineFigure* found = prediction.find(key);
  if (found == nullptr) {
    return -1;
  }
  if (const auto* count = std::get_if<std::int64_t>(&found->value)) {
    return *count;
  }
  const auto* size = std::get_if<Bytes>(&found->value);
  return size == nullptr ? -1 : size->count();
}

/// A figure with as many decimals as `like` has; empty where it is not predicted.
inline std::string text(const EnginePrediction& prediction, FigureKey key,
                        const std::string& like) {
  const EngineFigure* found = prediction.find(key);
  return found == nullptr ? std::string{} : figure_text(*found, like, FigureRounding::kNearest);
}

/// Bytes of a line of an account, 0 where there is none.
inline std::int64_t line(const std::vector<EngineLine>& account, const std::string& name) {
  for (const EngineLine& each : account) {
    if (each.name == name) {
      return each.bytes.count();
    }
  }
  return 0;
}

}  // namespace kvpool::test
