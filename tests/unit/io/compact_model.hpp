// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/model/model_config.hpp>

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kvpool::test {

// One line with everything that decides a model's cache, so that a table of literals can hold it:
// counts of layers by kind in order of first appearance, then query heads, type, longest position,
// next-token layers, cache type of the checkpoint and drafter.
//   8xGQA8x128       8 KV heads of width 128 (8x192/128: values of 128)
//   ..w4096 ..c8192  window, chunk; "+" joins the caches of one layer
//   MLA512+64 I128   latent and rope elements, indexer key
//   KDA(C36864 K4 M1572864 H96)   convolution channels, kernel, matrix elements, heads
inline std::string compact(const AttentionCache& c) {
  std::string out = "GQA" + std::to_string(c.kv_heads.count()) + "x" + std::to_string(c.key_dim);
  if (c.value_dim != c.key_dim) {
    out += "/" + std::to_string(c.value_dim);
  }
  const std::string extent = std::to_string(c.span.extent.count());
  switch (c.span.kind) {
    case SpanKind::kFull: return out;
    case SpanKind::kSlidingWindow: return out + "w" + extent;
    case SpanKind::kChunked: return out + "c" + extent;
    case SpanKind::kCross: return out + "x" + extent;
  }
  return out;
}

inline std::string compact(const LatentCache& c) {
  std::string out = "MLA" + std::to_string(c.latent_dim) + "+" + std::to_string(c.rope_dim);
  return c.span.kind == SpanKind::kFull ? out : out + "w" + std::to_string(c.span.extent.count());
}

inline std::string compact(const IndexerCache& c) { return "I" + std::to_string(c.key_dim); }

inline std::string compact(const StateCache& c) {
  std::string name;
  switch (c.family) {
    case StateFamily::kMamba2: name = "M2"; break;
    case StateFamily::kGatedDeltaNet: name = "GDN"; break;
    case StateFamily::kKimiDelta: name = "KDA"; break;
    case StateFamily::kShortConv: name = "conv"; break;
  }
  name += "(C" + std::to_string(c.conv_channels) + " K" + std::to_string(c.conv_kernel) + " M" +
          std::to_string(c.matrix_elements) + " H" + std::to_string(c.heads);
  if (c.groups != 0) {
    name += " G" + std::to_string(c.groups) + "x" + std::to_string(c.channels_per_group);
  }
  if (c.matrix_dtype.has_value()) {
    name += " " + std::string{to_string(*c.matrix_dtype)};
  }
  return name + ")";
}

inline std::string compact(const std::vector<LayerCache>& caches) {
  std::string out;
  for (const LayerCache& cache : caches) {
    out += out.empty() ? "" : "+";
    out += std::visit([](const auto& c) { return compact(c); }, cache);
  }
  return out;
}

inline std::string compact(const ModelConfig& model) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const ModelLayer& layer : model.layers) {
    std::string kind = compact(layer.caches);
    if (layer.shares_with.has_value()) {
      kind = "shared:" + std::to_string(layer.shares_with->value());
    } else if (kind.empty()) {
      kind = "none";
    }
    bool known = false;
    for (auto& [name, count] : kinds) {
      if (name == kind) {
        ++count;
        known = true;
      }
    }
    if (!known) {
      kinds.emplace_back(kind, 1);
    }
  }
  std::string out;
  for (const auto& [name, count] : kinds) {
    out += std::to_string(count) + "x" + name + " ";
  }
  out += "| q" + std::to_string(model.query_heads.count());
  out += model.native_dtype.has_value() ? " " + std::string{to_string(*model.native_dtype)} : "";
  if (model.max_positions.has_value()) {
    out += " max" + std::to_string(model.max_positions->count());
  }
  if (model.mtp_layers.count() > 0) {
    out += " mtp" + std::to_string(model.mtp_layers.count()) + "x" + compact(model.mtp_layer);
  }
  if (model.checkpoint_kv_dtype.has_value()) {
    out += " kv:" + std::string{to_string(*model.checkpoint_kv_dtype)};
  }
  if (model.drafter.has_value()) {
    out += " drafter:" + std::string{to_string(*model.drafter->kind)} + "/" +
           std::to_string(model.drafter->block_tokens.count());
  }
  return out;
}

// As above, or the refused key.
inline std::string compact(const Result<ModelConfig>& result) {
  return result.has_value() ? compact(*result) : "refused: " + result.error().key;
}

}  // namespace kvpool::test
