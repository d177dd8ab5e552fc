// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "layer_kinds.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace kvpool::io::detail {
namespace {

using Kinds = std::optional<LayerKinds>;

std::size_t count_of(const ModelFields& f) { return static_cast<std::size_t>(f.layers); }

void check_length(const JsonReader& config, std::string_view key, std::size_t have,
                  const ModelFields& f) {
  if (have != count_of(f)) {
    config.invalid(
        config.dotted(key), config.find(key)->shortened(),
        "has " + std::to_string(have) + " entries for " + std::to_string(f.layers) + " layers");
  }
}

LayerKinds all_of(const ModelFields& f, LayerKind kind, std::string key, std::string rule) {
  return {std::vector<LayerKind>(count_of(f), kind), {}, std::move(key), std::move(rule)};
}

std::vector<LayerKind> from_letters(const JsonReader& config, std::string_view key,
                                    const std::string& letters) {
  std::vector<LayerKind> kinds;
  kinds.reserve(letters.size());
  for (const char letter : letters) {
    switch (letter) {
      case 'M': kinds.push_back(LayerKind::kMamba2); break;
      case '*': kinds.push_back(LayerKind::kFull); break;
      case '-':
      case 'E': kinds.push_back(LayerKind::kNone); break;
      default:
        config.unsupported(config.dotted(key), shorten(std::string{letter}),
                           "not understood: layers are M (Mamba-2), * (attention), - (MLP) or E "
                           "(experts)");
    }
  }
  return kinds;
}

// Rule 1.
Kinds from_override_pattern(const JsonReader& config, const ModelFields& f) {
  const auto letters = config.text("hybrid_override_pattern");
  if (!letters.has_value()) {
    return std::nullopt;
  }
  check_length(config, "hybrid_override_pattern", letters->size(), f);
  return LayerKinds{from_letters(config, "hybrid_override_pattern", *letters),
                    {},
                    config.dotted("hybrid_override_pattern"),
                    "M recurrent, * attention, others no cache"};
}

// Rule 2.
Kinds from_linear_attn_config(const JsonReader& config, const ModelFields& f) {
  const auto linear = config.child("linear_attn_config");
  if (!linear.has_value()) {
    return std::nullopt;
  }
  const Limits index{1, f.layers};
  const auto full = linear->integers("full_attn_layers", index);
  if (!full.has_value()) {
    config.invalid(config.dotted("linear_attn_config") + ".full_attn_layers", {},
                   "missing: list the attention layers, counted from 1");
  }
  LayerKinds out = all_of(f, LayerKind::kKimiDelta, linear->dotted("full_attn_layers"),
                          "layers listed (from 1) attend, the rest are recurrent");
  for (const std::int64_t i : *full) {
    out.kinds[static_cast<std::size_t>(i - 1)] = LayerKind::kFull;
  }
  if (const auto recurrent = linear->integers("kda_layers", index)) {
    std::vector<bool> listed(count_of(f), false);
    for (const std::int64_t i : *recurrent) {
      listed[static_cast<std::size_t>(i - 1)] = true;
    }
    for (std::size_t i = 0; i < listed.size(); ++i) {
      if (listed[i] == (out.kinds[i] == LayerKind::kFull)) {
        config.invalid(linear->dotted("kda_layers"), std::to_string(i + 1),
                       "every layer must be in one of full_attn_layers and kda_layers");
      }
    }
  }
  return out;
}

// Rule 3.
Kinds from_layer_pattern(const JsonReader& config, const ModelFields& f) {
  const auto pattern = config.integers("hybrid_layer_pattern", {0, 1});
  if (!pattern.has_value()) {
    return std::nullopt;
  }
  check_length(config, "hybrid_layer_pattern", pattern->size(), f);
  LayerKinds out{{}, {}, config.dotted("hybrid_layer_pattern"), "0 full, 1 sliding window"};
  for (const std::int64_t p : *pattern) {
    out.kinds.push_back(p == 0 ? LayerKind::kFull : LayerKind::kSliding);
  }
  return out;
}

// Rule 4.
Kinds from_block_configs(const JsonReader& config, const ModelFields& f) {
  const Json::Array* blocks = config.list("block_configs");
  if (blocks == nullptr) {
    return std::nullopt;
  }
  check_length(config, "block_configs", blocks->size(), f);
  LayerKinds out{
      {},
      {},
      config.dotted("block_configs"),
      "no cache where attention is no-op or linear; KV heads = heads / n_heads_in_group"};
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    const std::string name = out.key + "[" + std::to_string(i) + "].attention";
    const Json* attention = (*blocks)[i].find("attention");
    if (attention == nullptr || attention->object() == nullptr) {
      config.invalid(name, attention == nullptr ? "" : attention->shortened(),
                     "must be an object with no_op and n_heads_in_group");
    }
    const JsonReader block{*attention, name + ".", config.file()};
    if (block.boolean("no_op").value_or(false) ||
        block.boolean("replace_with_linear").value_or(false)) {
      out.kinds.push_back(LayerKind::kNone);
      out.kv_heads.push_back(0);
      continue;
    }
    for (const std::string_view other : {"window_length", "sparsify", "num_sink_tokens", "mamba"}) {
      if (block.has(other)) {
        config.unsupported(block.dotted(other), block.find(other)->shortened(),
                           "not understood: only no_op, replace_with_linear and n_heads_in_group "
                           "are");
      }
    }
    const auto group =
        block.need_integer({"n_heads_in_group"}, {1, f.query_heads}, "the KV heads of the layer");
    if (f.query_heads % group.value != 0) {
      config.invalid(group.key, std::to_string(group.value),
                     "must divide the " + std::to_string(f.query_heads) + " query heads");
    }
    out.kinds.push_back(LayerKind::kFull);
    out.kv_heads.push_back(f.query_heads / group.value);
  }
  return out;
}

struct KindName {
  std::string_view name;
  LayerKind kind;
};

constexpr std::array kKindNames{
    KindName{"full_attention", LayerKind::kFull},
    KindName{"attention", LayerKind::kFull},
    KindName{"full", LayerKind::kFull},
    KindName{"global", LayerKind::kFull},
    KindName{"global_attention", LayerKind::kFull},
    KindName{"deepseek_sparse_attention", LayerKind::kSparse},
    KindName{"sliding_attention", LayerKind::kSliding},
    KindName{"sliding_window_attention", LayerKind::kSliding},
    KindName{"sliding_window", LayerKind::kSliding},
    KindName{"sliding", LayerKind::kSliding},
    KindName{"local_attention", LayerKind::kSliding},
    KindName{"local", LayerKind::kSliding},
    KindName{"chunked_attention", LayerKind::kChunked},
    KindName{"mamba", LayerKind::kMamba2},
    KindName{"mamba2", LayerKind::kMamba2},
    KindName{"conv", LayerKind::kShortConv},
    KindName{"short_conv", LayerKind::kShortConv},
    KindName{"mlp", LayerKind::kNone},
    KindName{"moe", LayerKind::kNone},
};

std::vector<LayerKind> from_names(const JsonReader& config, std::string_view key,
                                  const Json::Array& names) {
  std::vector<LayerKind> kinds;
  kinds.reserve(names.size());
  for (const Json& entry : names) {
    const auto place = [&] {
      return config.dotted(key) + "[" + std::to_string(kinds.size()) + "]";
    };
    const std::string* name = entry.text();
    if (name == nullptr) {
      config.invalid(place(), entry.shortened(), "must be text");
    }
    if (*name == "linear_attention") {
      // The family is not in the name; only the gated delta net states its sizes at this level.
      if (!config.has("linear_num_value_heads")) {
        config.unsupported(place(), *name,
                           "the state of this linear attention is not described: add "
                           "linear_num_value_heads and the other linear_* keys of a gated delta "
                           "net");
      }
      kinds.push_back(LayerKind::kGatedDeltaNet);
      continue;
    }
    const auto at =
        std::ranges::find_if(kKindNames, [&](const KindName& k) { return k.name == *name; });
    if (at == kKindNames.end()) {
      config.unsupported(place(), *name,
                         "this layer kind is not understood; known are full_attention, "
                         "sliding_attention, chunked_attention, linear_attention, mamba, conv, "
                         "deepseek_sparse_attention, mlp and moe");
    }
    kinds.push_back(at->kind);
  }
  return kinds;
}

// Rule 5.
Kinds from_layer_types(const JsonReader& config, const ModelFields& f) {
  for (const std::string_view key : {"layer_types", "layers_block_type"}) {
    if (const Json::Array* names = config.list(key)) {
      check_length(config, key, names->size(), f);
      return LayerKinds{
          from_names(config, key, *names), {}, config.dotted(key), "kind of each layer by name"};
    }
  }
  if (const auto full = config.integers("full_attn_idxs", {0, f.layers - 1});
      full.has_value() && config.has("conv_L_cache")) {
    LayerKinds out = all_of(f, LayerKind::kShortConv, config.dotted("full_attn_idxs"),
                            "layers listed (from 0) attend, the rest are short convolutions");
    for (const std::int64_t i : *full) {
      out.kinds[static_cast<std::size_t>(i)] = LayerKind::kFull;
    }
    return out;
  }
  return std::nullopt;
}

// Rule 6.
Kinds from_attention_interval(const JsonReader& config, const ModelFields& f) {
  const auto interval = config.integer({"full_attention_interval"}, limits::kLayers);
  if (!interval.has_value() || !config.has("linear_num_value_heads")) {
    return std::nullopt;
  }
  LayerKinds out = all_of(f, LayerKind::kGatedDeltaNet, interval->key,
                          "layer i (from 0) attends when (i+1) mod p = 0, else recurrent");
  out.stated = std::to_string(interval->value);
  for (std::int64_t i = interval->value - 1; i < f.layers; i += interval->value) {
    out.kinds[static_cast<std::size_t>(i)] = LayerKind::kFull;
  }
  return out;
}

// Rule 7.
Kinds from_chunks(const JsonReader& config, const ModelFields& f) {
  if (!config.has("attention_chunk_size")) {
    return std::nullopt;
  }
  if (!f.model_type.starts_with("llama4")) {
    config.unsupported(config.dotted("attention_chunk_size"),
                       config.find("attention_chunk_size")->shortened(),
                       "which layers attend in chunks is known for llama4 models only: add "
                       "layer_types");
  }
  const auto rope = config.integers("no_rope_layers", {0, 1});
  if (rope.has_value() && !rope->empty()) {
    check_length(config, "no_rope_layers", rope->size(), f);
    LayerKinds out{{}, {}, config.dotted("no_rope_layers"), "0 full, 1 chunked"};
    for (const std::int64_t r : *rope) {
      out.kinds.push_back(r == 0 ? LayerKind::kFull : LayerKind::kChunked);
    }
    return out;
  }
  const std::int64_t interval = config.integer_or({"no_rope_layer_interval"}, limits::kLayers, 4);
  LayerKinds out = all_of(f, LayerKind::kChunked, config.dotted("attention_chunk_size"),
                          "llama4 without no_rope_layers: every fourth layer full, else chunked");
  out.stated = config.find("attention_chunk_size")->shortened();
  for (std::int64_t i = interval - 1; i < f.layers; i += interval) {
    out.kinds[static_cast<std::size_t>(i)] = LayerKind::kFull;
  }
  return out;
}

// Families whose window holds for some layers only, so that a window alone says too little.
bool mixes_windows(std::string_view type) {
  constexpr std::array<std::string_view, 11> kPrefixes{"gemma2",  "gemma3",    "gemma4", "cohere2",
                                                       "gpt_oss", "exaone4",   "olmo3",  "afmoe",
                                                       "mimo_v2", "ministral", "step3"};
  return std::ranges::any_of(kPrefixes,
                             [type](std::string_view prefix) { return type.starts_with(prefix); });
}

// Rules 8 and 9.
LayerKinds from_window(const JsonReader& config, const ModelFields& f) {
  if (!f.window.has_value()) {
    if (config.has("interleaved_sliding_window")) {
      config.unsupported(config.dotted("interleaved_sliding_window"),
                         config.find("interleaved_sliding_window")->shortened(),
                         "contradicts use_sliding_window = false: remove one of them");
    }
    for (const std::string_view pattern : {"sliding_window_pattern", "_sliding_window_pattern"}) {
      if (config.has(pattern) && !f.window_switched_off) {
        config.unsupported(config.dotted(pattern), config.find(pattern)->shortened(),
                           "a pattern of sliding layers without their window: add sliding_window");
      }
    }
    // An explicit null says that there is no window; silence does not.
    if (mixes_windows(f.model_type) && !f.window_switched_off &&
        !config.mentions("sliding_window")) {
      config.unsupported(
          config.dotted("sliding_window"), {},
          "missing: layers of " + f.model_type + " slide; add sliding_window and layer_types");
    }
    LayerKinds out =
        all_of(f, LayerKind::kFull, f.layers_key, "no layer list and no window: all layers attend");
    out.stated = std::to_string(f.layers);
    if (f.window_switched_off) {
      out.key = config.dotted("use_sliding_window");
      out.rule = "no window: every layer is full";
      out.stated = "false";
    } else if (config.mentions("sliding_window")) {
      out.key = config.dotted("sliding_window");
      out.rule = "no window: every layer is full";
      out.stated = "null";
    }
    return out;
  }
  LayerKinds out = all_of(f, LayerKind::kSliding, f.window->key, "a window and nothing else");
  out.stated = std::to_string(f.window->value);
  const auto pattern =
      config.integer({"sliding_window_pattern", "_sliding_window_pattern"}, limits::kLayers);
  if (pattern.has_value()) {
    out.key = pattern->key;
    out.stated = std::to_string(pattern->value);
    out.rule = "layer i (from 0) is full when (i+1) mod p = 0, else sliding";
    for (std::int64_t i = pattern->value - 1; i < f.layers; i += pattern->value) {
      out.kinds[static_cast<std::size_t>(i)] = LayerKind::kFull;
    }
  } else if (f.model_type == "gemma2") {
    out.rule = "gemma2: even layers (from 0) slide";
    for (std::size_t i = 1; i < out.kinds.size(); i += 2) {
      out.kinds[i] = LayerKind::kFull;
    }
  } else if (config.boolean("use_sliding_window") == true && config.has("max_window_layers")) {
    const auto from = config.integer({"max_window_layers"}, limits::kLayersOrNone);
    out.key = from->key;
    out.stated = std::to_string(from->value);
    out.rule = "layers from max_window_layers on slide";
    std::fill_n(out.kinds.begin(), std::min(from->value, f.layers), LayerKind::kFull);
  } else if (mixes_windows(f.model_type) || config.has("interleaved_sliding_window")) {
    config.unsupported(f.window->key, std::to_string(f.window->value),
                       "which layers" + (f.model_type.empty() ? "" : " of " + f.model_type) +
                           " slide is not stated: add layer_types or sliding_window_pattern");
  }
  return out;
}

// Signs of recurrent layers: without a rule that finds them the model is not understood.
void refuse_unplaced_states(const JsonReader& config, const LayerKinds& kinds) {
  if (std::ranges::any_of(kinds.kinds, is_recurrent)) {
    return;
  }
  for (const std::string_view key :
       {"mamba_num_heads", "mamba_n_heads", "mamba_d_state", "ssm_state_size", "state_size",
        "conv_L_cache", "linear_num_value_heads", "short_conv_kernel_size", "mamba_d_conv",
        "rwkv_head_size", "lru_width"}) {
    if (config.has(key)) {
      config.unsupported(config.dotted(key), config.find(key)->shortened(),
                         "sizes of a recurrent state, but no key says which layers keep one: add "
                         "layer_types");
    }
  }
}

}  // namespace

LayerKinds read_layer_kinds(const JsonReader& config, const ModelFields& fields) {
  Kinds found;
  for (const auto rule :
       {from_override_pattern, from_linear_attn_config, from_layer_pattern, from_block_configs,
        from_layer_types, from_attention_interval, from_chunks}) {
    if (found = rule(config, fields); found.has_value()) {
      break;
    }
  }
  LayerKinds kinds = found.has_value() ? std::move(*found) : from_window(config, fields);
  refuse_unplaced_states(config, kinds);
  return kinds;
}

std::optional<LayerKinds> read_mtp_kinds(const JsonReader& config) {
  if (const auto letters = config.text("mtp_hybrid_override_pattern")) {
    return LayerKinds{from_letters(config, "mtp_hybrid_override_pattern", *letters),
                      {},
                      config.dotted("mtp_hybrid_override_pattern"),
                      "M recurrent, * attention, others no cache"};
  }
  if (const Json::Array* names = config.list("mtp_layers_block_type")) {
    return LayerKinds{from_names(config, "mtp_layers_block_type", *names),
                      {},
                      config.dotted("mtp_layers_block_type"),
                      "kind of each part by name"};
  }
  return std::nullopt;
}

}  // namespace kvpool::io::detail
