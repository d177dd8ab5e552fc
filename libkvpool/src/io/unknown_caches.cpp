// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "model_fields.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::io::detail {
namespace {

struct Unknown {
  std::string_view key;
  std::string_view why;
};

// Keys that change what a layer caches in a way no rule here covers. Present and not null, false,
// 0 or empty is a refusal.
constexpr std::array kUnknownKeys{
    Unknown{"compress_ratios",
            "compressed attention (as in DeepSeek-V4: windows and compressed "
            "latents of several ratios in one model)"},
    Unknown{"compress_ratio", "compressed attention"},
    Unknown{"compress_rates", "compressed attention"},
    Unknown{"sparse_attention_config", "block-sparse attention with a cache of its own"},
    Unknown{"sparse_config", "block-sparse attention with compressed keys"},
    Unknown{"nsa_config", "native sparse attention with compressed keys"},
    Unknown{"cross_attention_layers", "cross-attention layers between self-attention layers"},
    Unknown{"attention_types", "a list of global and local layers"},
    Unknown{"attn_layer_period", "attention layers between Mamba-1 layers"},
    Unknown{"attn_layer_indices", "attention layers listed by index between recurrent layers"},
    Unknown{"block_types", "recurrent blocks"},
    Unknown{"layer_group_size", "linear attention in groups of layers"},
    Unknown{"attn_config", "attention figures in a nested object"},
    Unknown{"use_cla", "caches shared between neighbouring layers"},
    Unknown{"cla_share_factor", "caches shared between neighbouring layers"},
    Unknown{"num_key_value_heads_per_layer", "KV heads per layer"},
    Unknown{"ssm_cfg", "a pure state-space model"},
    Unknown{"mamba_d_ssm", "Mamba state and attention in one layer"},
    Unknown{"use_mamba", "Mamba layers of another family"},
    Unknown{"mb_per_layer", "Mamba-1 layers and caches shared between halves of the model"},
    Unknown{"speculators_config", "a drafter in the speculators format"},
    Unknown{"lightning_attention", "lightning attention"},
};

// Model types whose configs look like those of plain transformers but whose caches do not.
constexpr std::array kUnknownTypes{
    Unknown{"deepseek_v4", "compressed attention with several latent and window caches"},
    Unknown{"longcat_flash", "two attention blocks in each layer"},
    Unknown{"falcon_h1", "Mamba state and attention in one layer"},
    Unknown{"mamba", "a pure Mamba-1 model"},
    Unknown{"mamba2", "a pure Mamba-2 model"},
    Unknown{"falcon_mamba", "a pure Mamba-1 model"},
    Unknown{"jamba", "Mamba-1 layers"},
    Unknown{"zamba", "shared attention blocks between Mamba layers"},
    Unknown{"zamba2", "shared attention blocks between Mamba layers"},
    Unknown{"recurrent_gemma", "recurrent blocks"},
    Unknown{"rwkv", "a recurrent state"},
    Unknown{"rwkv5", "a recurrent state"},
    Unknown{"rwkv6", "a recurrent state"},
    Unknown{"rwkv7", "a recurrent state"},
    Unknown{"minimax", "lightning attention"},
    Unknown{"minimax_text_01", "lightning attention"},
    Unknown{"minimax_m1", "lightning attention"},
    Unknown{"gpt_neo", "alternating global and local layers"},
    Unknown{"mllama", "cross-attention layers between self-attention layers"},
    Unknown{"mllama_text_model", "cross-attention layers between self-attention layers"},
    Unknown{"openelm", "heads that differ by layer"},
    Unknown{"phi4flash", "Mamba-1 layers and caches shared between halves of the model"},
    Unknown{"plamo2", "Mamba layers of another family"},
};

constexpr std::array<std::string_view, 9> kPlainAttention{
    "full", "full_attention", "softmax", "original_full", "mha", "gqa", "mqa", "mla", "default"};

// Encoders: every token sees every other at once, so nothing is kept between steps. As decoders
// (`is_decoder`) they do keep a cache.
constexpr std::array<std::string_view, 20> kEncoders{
    "bert",       "roberta",    "xlm-roberta", "xlm-roberta-xl", "camembert",
    "distilbert", "albert",     "electra",     "deberta",        "deberta-v2",
    "mpnet",      "modernbert", "nomic_bert",  "mobilebert",     "convbert",
    "new",        "esm",        "eurobert",    "jina_bert",      "neobert"};

void refuse_encoders(const JsonReader& config, const std::string& type) {
  if (config.boolean("is_decoder").value_or(false) ||
      config.boolean("is_encoder_decoder").value_or(false)) {
    return;
  }
  constexpr std::string_view kWhy =
      "an encoder without a decoder keeps no KV cache, so there is nothing to plan";
  if (std::ranges::find(kEncoders, type) != kEncoders.end()) {
    config.unsupported(config.dotted("model_type"), type, std::string{kWhy});
  }
  for (const std::string& name :
       config.texts("architectures").value_or(std::vector<std::string>{})) {
    if (name.ends_with("ForMaskedLM") || name.ends_with("EncoderModel")) {
      config.unsupported(config.dotted("architectures"), name, std::string{kWhy});
    }
  }
}

bool is_off(const Json& value) {
  if (const auto* b = value.boolean()) {
    return !*b;
  }
  if (const auto* i = value.integer()) {
    return *i == 0;
  }
  if (const auto* a = value.array()) {
    return a->empty();
  }
  if (const auto* o = value.object()) {
    return o->empty();
  }
  return value.text() != nullptr && value.text()->empty();
}

bool has_part(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Objects that describe weights or other encoders, and keys that only name a tool.
bool says_nothing_of_caches(std::string_view key) {
  return key == "quantization_config" || key == "compression_config" ||
         key == "for_llm_compressor" || has_part(key, "vision") || has_part(key, "audio");
}

// Words of a cache that keeps less than one vector per token.
bool smells_of_compression(std::string_view key) {
  if (has_part(key, "compress")) {
    return true;
  }
  const bool of_cache = key.starts_with("kv_") || has_part(key, "_kv_") || has_part(key, "cache");
  return of_cache && (has_part(key, "ratio") || has_part(key, "evict") || has_part(key, "merge") ||
                      has_part(key, "prun"));
}

// 1 compresses nothing.
bool is_one(const Json& value) {
  return (value.integer() != nullptr && *value.integer() == 1) ||
         (value.real() != nullptr && (*value.real() == 1 || *value.real() == 0));
}

std::string not_understood(std::string_view why) {
  return "not understood: " + std::string{why} +
         "; its cache cannot be sized, describe the layers in code (kvpool::ModelConfig)";
}

// Looks through the config's keys and those of the objects in it.
void refuse_compression(const JsonReader& config, bool nested) {
  for (const std::string_view key : config.keys()) {
    const Json* value = config.peek(key);
    if (value == nullptr || says_nothing_of_caches(key)) {
      continue;
    }
    if (smells_of_compression(key) && !is_off(*value) && !is_one(*value)) {
      config.unsupported(config.dotted(key), value->shortened(),
                         not_understood("by its name it compresses the cache"));
    }
    if (!nested && value->object() != nullptr) {
      refuse_compression(JsonReader{*value, config.dotted(key) + ".", config.file()}, true);
    }
  }
}

}  // namespace

void refuse_unknown_caches(const JsonReader& config) {
  for (const Unknown& unknown : kUnknownKeys) {
    const Json* value = config.find(unknown.key);
    if (value != nullptr && !is_off(*value)) {
      config.unsupported(config.dotted(unknown.key), value->shortened(),
                         not_understood(unknown.why));
    }
  }
  const std::string type = config.text("model_type").value_or("");
  for (const Unknown& unknown : kUnknownTypes) {
    if (type == unknown.key) {
      config.unsupported(config.dotted("model_type"), type, not_understood(unknown.why));
    }
  }
  refuse_encoders(config, type);
  refuse_compression(config, false);
  for (const std::string_view key : {"attention_type", "attn_type", "attention_method"}) {
    const auto kind = config.text(key);
    if (kind.has_value() && std::ranges::find(kPlainAttention, *kind) == kPlainAttention.end()) {
      config.unsupported(config.dotted(key), *kind, not_understood("this kind of attention"));
    }
  }
  // 1 is full attention in every layer; MiniMax-01 marks lightning attention by 0.
  if (const Json::Array* kinds = config.list("attn_type_list")) {
    for (const Json& kind : *kinds) {
      if (kind.integer() == nullptr || *kind.integer() != 1) {
        config.unsupported(config.dotted("attn_type_list"), kind.shortened(),
                           not_understood("only 1, full attention, is"));
      }
    }
  }
  if (config.has("index_topk_freq") && !config.has("indexer_types") &&
      config.integer_or({"index_topk_freq"}, limits::kLayers, 1) != 1) {
    config.unsupported(config.dotted("index_topk_freq"),
                       config.find("index_topk_freq")->shortened(),
                       "which layers own an indexer is not stated: add indexer_types");
  }
}

}  // namespace kvpool::io::detail
