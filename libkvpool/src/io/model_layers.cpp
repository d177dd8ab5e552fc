// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "model_layers.hpp"

#include "recurrent_states.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace kvpool::io::detail {
namespace {

// Heads and widths of one kind of attention layer.
struct AttentionSizes {
  std::int64_t query_heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
};

class LayerBuilder {
 public:
  LayerBuilder(const JsonReader& config, const ModelFields& fields, FactLog& facts)
      : config_{config}, fields_{fields}, facts_{facts} {
    read_sliding_sizes();
    read_full_sizes();
  }

  [[nodiscard]] std::vector<LayerCache> caches(LayerKind kind, std::size_t index,
                                               const LayerKinds& kinds, bool own_indexer) {
    std::vector<LayerCache> out;
    if (kind == LayerKind::kNone) {
      return out;
    }
    if (is_recurrent(kind)) {
      out.emplace_back(state_of(kind));
      return out;
    }
    const Span span = span_of(kind, kinds.key);
    if (fields_.latent.has_value()) {
      out.emplace_back(LatentCache{Heads{query_heads_of(index)}, fields_.latent->latent_dim,
                                   fields_.latent->rope_dim, span, fields_.latent->nope_dim,
                                   fields_.latent->value_dim});
      if (fields_.indexer_dim.has_value() && own_indexer) {
        out.emplace_back(IndexerCache{*fields_.indexer_dim});
      }
      if (kind == LayerKind::kSparse && !fields_.indexer_dim.has_value()) {
        refuse_sparse(kinds.key, "index_head_dim");
      }
    } else {
      if (kind == LayerKind::kSparse) {
        refuse_sparse(kinds.key, "kv_lora_rank and index_head_dim");
      }
      const AttentionSizes sizes = sizes_of(kind, index, kinds);
      out.emplace_back(attention(kind, sizes, span));
      if (fields_.cross_positions.has_value()) {
        out.emplace_back(
            attention(kind, sizes, Span{SpanKind::kCross, Tokens{*fields_.cross_positions}}));
      }
    }
    return out;
  }

 private:
  void read_sliding_sizes() {
    sliding_ = {fields_.query_heads, fields_.kv_heads, fields_.key_dim, fields_.value_dim};
    take({"swa_num_attention_heads"}, limits::kHeads, "sliding_query_heads", sliding_.query_heads,
         sliding_stated_.query_heads);
    take({"swa_num_key_value_heads"}, limits::kHeads, "sliding_kv_heads", sliding_.kv_heads,
         sliding_stated_.kv_heads);
    std::int64_t key_dim_stated = 0;
    take({"swa_head_dim"}, limits::kDim, "sliding_key_dim", sliding_.key_dim, key_dim_stated);
    if (key_dim_stated != 0 && !config_.has("v_head_dim")) {
      sliding_.value_dim = sliding_.key_dim;
    }
    std::int64_t ignored = 0;
    take({"swa_v_head_dim"}, limits::kDim, "sliding_value_dim", sliding_.value_dim, ignored);
  }

  void read_full_sizes() {
    full_ = {fields_.query_heads, fields_.kv_heads, fields_.key_dim, fields_.value_dim};
    std::int64_t dim_stated = 0;
    take({"global_head_dim"}, limits::kDim, "full_key_dim", full_.key_dim, dim_stated);
    if (dim_stated != 0) {
      full_.value_dim = full_.key_dim;
    }
    take({"num_global_key_value_heads"}, limits::kHeads, "full_kv_heads", full_.kv_heads,
         full_stated_.kv_heads);
  }

  void take(std::initializer_list<std::string_view> keys, Limits limits, std::string_view figure,
            std::int64_t& into, std::int64_t& stated) {
    if (fields_.latent.has_value()) {
      return;
    }
    if (const auto value = config_.integer(keys, limits)) {
      into = value->value;
      stated = value->value;
      facts_.add(figure, value->key, value->value);
    }
  }

  [[nodiscard]] std::int64_t query_heads_of(std::size_t index) const {
    return fields_.query_heads_by_layer.empty() ? fields_.query_heads
                                                : fields_.query_heads_by_layer[index];
  }

  [[nodiscard]] AttentionSizes sizes_of(LayerKind kind, std::size_t index,
                                        const LayerKinds& kinds) const {
    const bool sliding = kind == LayerKind::kSliding;
    AttentionSizes sizes = sliding ? sliding_ : full_;
    if (kind == LayerKind::kChunked) {
      sizes = {fields_.query_heads, fields_.kv_heads, fields_.key_dim, fields_.value_dim};
    }
    const AttentionSizes& stated = sliding ? sliding_stated_ : full_stated_;
    if (!fields_.query_heads_by_layer.empty() && stated.query_heads == 0) {
      sizes.query_heads = fields_.query_heads_by_layer[index];
    }
    if (!kinds.kv_heads.empty()) {
      sizes.kv_heads = kinds.kv_heads[index];
    } else if (!fields_.kv_heads_by_layer.empty() && stated.kv_heads == 0) {
      sizes.kv_heads = fields_.kv_heads_by_layer[index];
    }
    return sizes;
  }

  // The key that says how many KV heads a layer of this kind has.
  [[nodiscard]] std::string kv_heads_key(LayerKind kind) const {
    if (kind == LayerKind::kSliding && sliding_stated_.kv_heads != 0) {
      return config_.dotted("swa_num_key_value_heads");
    }
    if (kind == LayerKind::kFull && full_stated_.kv_heads != 0) {
      return config_.dotted("num_global_key_value_heads");
    }
    return fields_.kv_heads_key;
  }

  [[nodiscard]] AttentionCache attention(LayerKind kind, const AttentionSizes& sizes,
                                         Span span) const {
    if (sizes.query_heads % sizes.kv_heads != 0) {
      config_.invalid(kv_heads_key(kind), std::to_string(sizes.kv_heads),
                      "must divide the " + std::to_string(sizes.query_heads) + " query heads");
    }
    return AttentionCache{Heads{sizes.query_heads}, Heads{sizes.kv_heads}, sizes.key_dim,
                          sizes.value_dim, span};
  }

  [[nodiscard]] Span span_of(LayerKind kind, const std::string& key) {
    if (kind == LayerKind::kSliding) {
      if (!fields_.window.has_value()) {
        const bool off = fields_.window_switched_off;
        config_.unsupported(config_.dotted(off ? "use_sliding_window" : "sliding_window"),
                            off ? "false" : "",
                            off ? "contradicts the sliding layers of " + key +
                                      ": set it to true, or make the layers full_attention"
                                : "missing: " + key + " has sliding layers; add sliding_window");
      }
      if (!std::exchange(noted_window_, true)) {
        facts_.add("window", fields_.window->key, fields_.window->value);
      }
      return Span{SpanKind::kSlidingWindow, Tokens{fields_.window->value}};
    }
    if (kind == LayerKind::kChunked) {
      if (chunk_ == 0) {
        const auto chunk = config_.need_integer({"attention_chunk_size"}, limits::kLength,
                                                "the chunked layers of " + key);
        chunk_ = chunk.value;
        facts_.add("chunk", chunk.key, chunk.value);
      }
      return Span{SpanKind::kChunked, Tokens{chunk_}};
    }
    return Span{};
  }

  [[nodiscard]] StateCache state_of(LayerKind kind) {
    auto at = states_.find(kind);
    if (at == states_.end()) {
      at = states_.emplace(kind, read_state(config_, fields_, kind, facts_)).first;
    }
    return at->second;
  }

  [[noreturn]] void refuse_sparse(const std::string& key, std::string_view missing) const {
    config_.unsupported(
        key, "deepseek_sparse_attention",
        "sparse attention needs a latent and an indexer: add " + std::string{missing});
  }

  const JsonReader& config_;
  const ModelFields& fields_;
  FactLog& facts_;
  AttentionSizes sliding_;
  AttentionSizes sliding_stated_;
  AttentionSizes full_;
  AttentionSizes full_stated_;
  std::map<LayerKind, StateCache> states_;
  std::int64_t chunk_ = 0;
  bool noted_window_ = false;
};

// Which layers own an indexer; empty when all do.
std::vector<bool> read_indexer_owners(const JsonReader& config, const ModelFields& fields,
                                      FactLog& facts) {
  const auto types = config.texts("indexer_types");
  std::vector<bool> owners;
  if (!types.has_value() || !fields.indexer_dim.has_value()) {
    return owners;
  }
  const std::string key = config.dotted("indexer_types");
  if (types->size() != static_cast<std::size_t>(fields.layers)) {
    config.invalid(
        key, config.find("indexer_types")->shortened(),
        "must have one entry for each of the " + std::to_string(fields.layers) + " layers");
  }
  for (const std::string& type : *types) {
    if (type != "full" && type != "shared") {
      config.unsupported(key + "[" + std::to_string(owners.size()) + "]", type,
                         "not understood: an indexer is full (owns a key cache) or shared");
    }
    owners.push_back(type == "full");
  }
  facts.add("indexer_layers", key, std::ranges::count(owners, true),
            "only layers marked full own an indexer key");
  return owners;
}

// The last k layers read the cache of the last earlier layer of their kind.
void share_caches(const JsonReader& config, const LayerKinds& kinds,
                  std::vector<ModelLayer>& layers, FactLog& facts) {
  const auto shared = config.integer({"num_kv_shared_layers"}, limits::kLayersOrNone);
  if (!shared.has_value() || shared->value == 0) {
    return;
  }
  const auto count = static_cast<std::int64_t>(layers.size());
  if (shared->value >= count) {
    config.invalid(shared->key, std::to_string(shared->value),
                   "must be less than the " + std::to_string(count) + " layers");
  }
  const auto first = static_cast<std::size_t>(count - shared->value);
  std::map<LayerKind, LayerIndex> owner;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!is_attention(kinds.kinds[i])) {
      continue;
    }
    if (i < first) {
      owner[kinds.kinds[i]] = layers[i].index;
      continue;
    }
    const auto at = owner.find(kinds.kinds[i]);
    if (at == owner.end()) {
      config.invalid(shared->key, std::to_string(shared->value),
                     "layer " + std::to_string(i) +
                         " shares a cache, but no earlier layer of its kind owns one");
    }
    layers[i].caches.clear();
    layers[i].shares_with = at->second;
  }
  facts.add("shared_layers", shared->key, shared->value,
            "the last layers read the cache of the last earlier layer of their kind");
}

}  // namespace

std::vector<ModelLayer> build_layers(const JsonReader& config, const ModelFields& fields,
                                     const LayerKinds& kinds, FactLog& facts) {
  LayerBuilder builder{config, fields, facts};
  const std::vector<bool> owners = read_indexer_owners(config, fields, facts);
  std::vector<ModelLayer> layers;
  layers.reserve(kinds.kinds.size());
  for (std::size_t i = 0; i < kinds.kinds.size(); ++i) {
    const bool own_indexer = owners.empty() || owners[i];
    layers.push_back(ModelLayer{LayerIndex{static_cast<std::int32_t>(i)},
                                builder.caches(kinds.kinds[i], i, kinds, own_indexer),
                                std::nullopt});
  }
  const auto count = [&kinds](auto test) { return std::ranges::count_if(kinds.kinds, test); };
  const auto note = [&](std::string_view figure, std::int64_t number, std::string_view what) {
    const std::string text = std::to_string(number);
    if (kinds.stated.empty() || kinds.stated == text) {
      facts.add(figure, kinds.key, text, kinds.rule);
    } else {
      facts.add(figure, kinds.key, kinds.stated,
                kinds.rule + ": " + text + std::string{what} + " layers");
    }
  };
  note("attention_layers", count(is_attention), " attention");
  if (const auto recurrent = count(is_recurrent); recurrent > 0) {
    note("recurrent_layers", recurrent, " recurrent");
  }
  share_caches(config, kinds, layers, facts);
  return layers;
}

MtpLayers build_mtp_layers(const JsonReader& config, const ModelFields& fields,
                           const std::vector<ModelLayer>& layers, FactLog& facts) {
  MtpLayers mtp;
  if (config.boolean("use_mtp") == false) {
    return mtp;
  }
  const auto count = config.integer({"num_nextn_predict_layers", "mtp_num_hidden_layers",
                                     "num_mtp_modules", "mtp_num_layers", "num_mtp_layers"},
                                    limits::kLayersOrNone);
  if (!count.has_value() || count->value == 0) {
    return mtp;
  }
  mtp.count = Layers{count->value};
  std::string rule = "each copies the target's attention layer";
  if (const auto listed = read_mtp_kinds(config)) {
    FactLog unused;
    LayerBuilder builder{config, fields, unused};
    for (const LayerKind kind : listed->kinds) {
      for (LayerCache& cache : builder.caches(kind, 0, *listed, true)) {
        mtp.caches.push_back(cache);
      }
    }
    rule = "kinds by " + listed->key;
  } else {
    // The first full attention layer with the most caches: in a hybrid the full one, with sparse
    // attention one that owns an indexer.
    const ModelLayer* best = nullptr;
    int best_rank = 0;
    for (const ModelLayer& layer : layers) {
      int rank = 0;
      for (const LayerCache& cache : layer.caches) {
        if (const auto* a = std::get_if<AttentionCache>(&cache)) {
          rank += a->span.kind == SpanKind::kFull ? 10 : 1;
        } else if (const auto* l = std::get_if<LatentCache>(&cache)) {
          rank += l->span.kind == SpanKind::kFull ? 10 : 1;
        } else if (std::holds_alternative<IndexerCache>(cache)) {
          rank += 1;
        }
      }
      if (rank > best_rank) {
        best = &layer;
        best_rank = rank;
      }
    }
    if (best == nullptr) {
      config.unsupported(count->key, std::to_string(count->value),
                         "next-token layers copy an attention layer, and the model has none");
    }
    mtp.caches = best->caches;
  }
  if (const auto per_module = config.integer({"mtp_transformer_layers"}, limits::kLayers)) {
    if (per_module->value * count->value > limits::kLayers.high) {
      config.invalid(per_module->key, std::to_string(per_module->value), "too many layers");
    }
    mtp.count = Layers{count->value * per_module->value};
    rule += "; modules * layers of each = " + std::to_string(count->value) + " x " +
            std::to_string(per_module->value) + " = " + std::to_string(mtp.count.count());
  }
  facts.add("mtp_layers", count->key, count->value, rule);
  return mtp;
}

}  // namespace kvpool::io::detail
