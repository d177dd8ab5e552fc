// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "model_fields.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace kvpool::io::detail {
namespace {

constexpr std::array<std::string_view, 3> kNested{"text_config", "llm_config", "language_config"};

// Native types of weights; quantised ones are described by the quantisation section.
std::optional<KvDtype> read_dtype_of(const JsonReader& config, FactLog& facts) {
  for (const std::string_view key : {"dtype", "torch_dtype"}) {
    auto text = config.text(key);
    if (!text.has_value() || *text == "auto") {
      continue;
    }
    constexpr std::string_view kPrefix = "torch.";
    std::string_view name = *text;
    if (name.substr(0, kPrefix.size()) == kPrefix) {
      name.remove_prefix(kPrefix.size());
    }
    const auto dtype = parse_kv_dtype(name);
    if (dtype != KvDtype::kBf16 && dtype != KvDtype::kFp16 && dtype != KvDtype::kFp32) {
      config.invalid(config.dotted(key), *text, "must be bfloat16, float16 or float32");
    }
    facts.add("native_dtype", config.dotted(key), to_string(*dtype));
    return dtype;
  }
  return std::nullopt;
}

// A count of heads that may be one number or one per layer.
Named<std::int64_t> read_heads(const JsonReader& config, std::string_view key, std::int64_t layers,
                               std::vector<std::int64_t>& by_layer) {
  const std::string name = config.dotted(key);
  const Json& value = *config.find(key);
  if (value.array() == nullptr) {
    return {config.to_integer(value, name, limits::kHeads), name};
  }
  by_layer = *config.integers(key, limits::kHeads);
  if (by_layer.size() != static_cast<std::size_t>(layers)) {
    config.invalid(name, value.shortened(),
                   "must have one entry for each of the " + std::to_string(layers) + " layers");
  }
  return {by_layer.front(), name};
}

void read_kv_heads(const JsonReader& config, const std::string& query_key, ModelFields& f,
                   FactLog& facts) {
  if (config.has("num_key_value_heads")) {
    const auto kv = read_heads(config, "num_key_value_heads", f.layers, f.kv_heads_by_layer);
    f.kv_heads = kv.value;
    f.kv_heads_key = kv.key;
    facts.add("kv_heads", kv.key, kv.value, f.kv_heads_by_layer.empty() ? "" : "one per layer");
    return;
  }
  const bool new_decoder = config.boolean("new_decoder_architecture").value_or(false);
  const auto multi_query = config.boolean("multi_query");
  const auto groups = config.integer({"num_kv_heads", "n_head_kv"}, limits::kHeads);
  if (multi_query == true && !new_decoder) {
    f.kv_heads = 1;
    f.kv_heads_key = config.dotted("multi_query");
    facts.add("kv_heads", f.kv_heads_key, "true", "multi-query attention: 1 KV head");
  } else if (groups.has_value() && (new_decoder || !multi_query.has_value())) {
    f.kv_heads = groups->value;
    f.kv_heads_key = groups->key;
    facts.add("kv_heads", groups->key, groups->value);
  } else if (config.boolean("multi_query_attention").value_or(false)) {
    const auto kv = config.need_integer({"multi_query_group_num"}, limits::kHeads, "the KV heads");
    f.kv_heads = kv.value;
    f.kv_heads_key = kv.key;
    facts.add("kv_heads", kv.key, kv.value);
  } else {
    f.kv_heads = f.query_heads;
    f.kv_heads_by_layer = f.query_heads_by_layer;
    f.kv_heads_key = query_key;
    facts.add("kv_heads", query_key, f.kv_heads, "no num_key_value_heads: as many as query heads");
  }
}

void read_head_dims(const JsonReader& config, const std::string& hidden_key, ModelFields& f,
                    FactLog& facts) {
  if (const auto dim =
          config.integer({"head_dim", "attention_head_dim", "kv_channels"}, limits::kDim)) {
    f.key_dim = dim->value;
    facts.add("key_dim", dim->key, f.key_dim);
  } else {
    if (f.hidden_size % f.query_heads != 0) {
      config.invalid(config.dotted("head_dim"), {},
                     "missing, and the hidden size " + std::to_string(f.hidden_size) +
                         " is no multiple of the " + std::to_string(f.query_heads) +
                         " query heads: add head_dim");
    }
    f.key_dim = f.hidden_size / f.query_heads;
    facts.add("key_dim", hidden_key, f.hidden_size,
              "no head_dim: hidden size / query heads = " + std::to_string(f.hidden_size) + " / " +
                  std::to_string(f.query_heads) + " = " + std::to_string(f.key_dim));
  }
  f.value_dim = f.key_dim;
  if (const auto dim = config.integer({"v_head_dim"}, limits::kDim)) {
    f.value_dim = dim->value;
    facts.add("value_dim", dim->key, f.value_dim);
  }
}

void read_latent(const JsonReader& config, ModelFields& f, FactLog& facts) {
  const auto rank = config.integer({"kv_lora_rank"}, limits::kDim);
  const auto indexer = config.integer({"index_head_dim"}, limits::kDim);
  if (!rank.has_value()) {
    if (indexer.has_value()) {
      config.unsupported(indexer->key, std::to_string(indexer->value),
                         "a sparse-attention indexer without a latent cache is not understood: "
                         "add kv_lora_rank");
    }
    return;
  }
  if (config.boolean("use_mla") == false) {
    config.unsupported(
        config.dotted("use_mla"), "false",
        "contradicts " + rank->key + " = " + std::to_string(rank->value) + ": remove one of them");
  }
  const auto rope = config.need_integer({"qk_rope_head_dim"}, limits::kDimOrNone,
                                        "the latent cache that kv_lora_rank asks for");
  f.latent = LatentFields{rank->value, rope.value,
                          config.integer_or({"qk_nope_head_dim"}, limits::kDimOrNone, 0),
                          config.integer_or({"v_head_dim"}, limits::kDimOrNone, 0)};
  facts.add("latent_dim", rank->key, rank->value, "MLA: one vector per token for all heads");
  facts.add("rope_dim", rope.key, rope.value);
  if (indexer.has_value()) {
    f.indexer_dim = indexer->value;
    facts.add("indexer_dim", indexer->key, indexer->value,
              "sparse attention: an fp8 key per token beside the latent");
  }
}

void read_window(const JsonReader& config, ModelFields& f, FactLog& facts) {
  f.window_switched_off = config.boolean("use_sliding_window") == false;
  if (f.window_switched_off) {
    facts.add("window", config.dotted("use_sliding_window"), "false",
              "no window, whatever sliding_window says");
    return;
  }
  f.window = config.integer({"sliding_window", "sliding_window_size", "interleaved_sliding_window"},
                            limits::kLength);
}

}  // namespace

void FactLog::add(std::string_view figure, const std::string& key, std::int64_t value,
                  std::string_view rule) {
  add(figure, key, std::to_string(value), rule);
}

void FactLog::add(std::string_view figure, const std::string& key, std::string_view value,
                  std::string_view rule) {
  facts_.push_back(
      ConfigFact{std::string{figure}, shorten(key, 120), shorten(value), std::string{rule}});
}

JsonReader open_config(const Json& root, const std::string& file) {
  JsonReader config{root, {}, file};
  if (root.object() == nullptr) {
    config.invalid({}, root.shortened(), "a model config must be a JSON object");
  }
  for (const std::string_view key : kNested) {
    if (const Json* nested = config.find(key)) {
      if (nested->object() == nullptr) {
        config.invalid(std::string{key}, nested->shortened(), "must be an object");
      }
      config.overlay(*nested, std::string{key} + ".");
      break;
    }
  }
  return config;
}

ModelFields read_fields(const JsonReader& config, FactLog& facts) {
  ModelFields f;
  f.model_type = config.text("model_type").value_or("");
  f.architectures = config.texts("architectures").value_or(std::vector<std::string>{});
  const bool encoder_decoder = config.boolean("is_encoder_decoder").value_or(false);
  const auto layers =
      encoder_decoder
          ? config.need_integer({"decoder_layers"}, limits::kLayers, "the number of layers")
          : config.need_integer({"num_hidden_layers", "n_layer", "n_layers"}, limits::kLayers,
                                "the number of layers");
  f.layers = layers.value;
  f.layers_key = layers.key;
  facts.add("layers", layers.key, layers.value);
  const auto hidden =
      config.need_integer({"hidden_size", "d_model", "n_embd"}, limits::kDim, "the hidden size");
  f.hidden_size = hidden.value;
  facts.add("hidden_size", hidden.key, hidden.value);

  Named<std::int64_t> heads;
  if (encoder_decoder) {
    heads = config.need_integer({"decoder_attention_heads", "num_attention_heads"}, limits::kHeads,
                                "the query heads");
  } else if (config.has("num_attention_heads")) {
    heads = read_heads(config, "num_attention_heads", f.layers, f.query_heads_by_layer);
  } else {
    heads = config.need_integer({"num_attention_heads", "n_head", "n_heads"}, limits::kHeads,
                                "the query heads");
  }
  f.query_heads = heads.value;
  facts.add("query_heads", heads.key, heads.value);

  read_latent(config, f, facts);
  if (!f.latent.has_value()) {
    read_kv_heads(config, heads.key, f, facts);
    read_head_dims(config, hidden.key, f, facts);
  }
  read_window(config, f, facts);
  if (encoder_decoder) {
    const auto cross = config.need_integer({"max_source_positions"}, limits::kLength,
                                           "the cross-attention cache of the decoder layers");
    f.cross_positions = cross.value;
    facts.add("cross_positions", cross.key, cross.value,
              "encoder-decoder: every decoder layer owns a self and a cross cache");
  }
  const auto positions = config.integer({"max_position_embeddings", "max_target_positions",
                                         "n_positions", "max_sequence_length", "seq_length"},
                                        limits::kLength);
  if (positions.has_value()) {
    f.max_positions = Tokens{positions->value};
    facts.add("max_positions", positions->key, positions->value);
  }
  f.native_dtype = read_dtype_of(config, facts);
  return f;
}

}  // namespace kvpool::io::detail
