// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "weight_mlp.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace kvpool::io::detail {
namespace {

constexpr std::size_t kNone = 0;
constexpr std::size_t kDense = 1;
constexpr std::size_t kExperts = 2;

// Families whose MLP is two matrices, without a gate.
bool without_gate(const ModelFields& fields) {
  constexpr std::array<std::string_view, 10> kPrefixes{
      "opt",   "gpt",        "whisper",  "starcoder2", "falcon",
      "bloom", "nemotron_h", "phi-msft", "mpt",        "codegen"};
  if (fields.model_type == "phi") {
    return true;
  }
  return fields.model_type != "gpt_oss" &&
         std::ranges::any_of(kPrefixes, [&fields](std::string_view prefix) {
           return fields.model_type.starts_with(prefix);
         });
}

// One width, or the first of a list of widths.
std::int64_t width(const JsonReader& config, std::string_view key) {
  const Json* value = config.find(key);
  if (value != nullptr && value->array() != nullptr) {
    const auto all = config.integers(key, limits::kDimOrNone);
    return all->empty() ? 0 : all->front();
  }
  return config.integer_or({key}, limits::kDimOrNone, 0);
}

std::int64_t first_width(const JsonReader& config, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const std::int64_t w = width(config, key); w > 0) {
      return w;
    }
  }
  return 0;
}

}  // namespace

MlpWeights::MlpWeights(const JsonReader& config, const ModelFields& fields, const LayerKinds& kinds)
    : kinds_(3), by_layer_(static_cast<std::size_t>(fields.layers), kDense) {
  read_sizes(config, fields);
  if (!place_blocks(config, fields, kinds)) {
    place(config, fields, kinds);
  }
  read_encoder(config, fields);
}

void MlpWeights::read_sizes(const JsonReader& config, const ModelFields& fields) {
  const bool llama4 = fields.model_type.starts_with("llama4");
  matrices_ = without_gate(fields) ? 2 : 3;
  const CheckedInt hidden{fields.hidden_size};
  std::int64_t dense = first_width(
      config, {"intermediate_size", "ffn_dim", "decoder_ffn_dim", "n_inner", "ffn_hidden_size"});
  if (dense == 0 && (fields.model_type == "gpt2" || fields.model_type == "opt")) {
    dense = 4 * fields.hidden_size;
  }
  const std::int64_t experts =
      config.integer_or({"n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"},
                        limits::kExperts, 0);
  has_experts_ = experts > 0;
  const std::int64_t moe_width = first_width(config, {"moe_intermediate_size"});
  const std::int64_t expert_width = moe_width > 0 ? moe_width : dense;
  // Experts may work on a narrower stream, reached by one projection down and one up.
  const std::int64_t stream = first_width(config, {"routed_expert_hidden_size", "moe_latent_size"});
  const CheckedInt expert_in = stream > 0 ? CheckedInt{stream} : hidden;

  kinds_[kExperts].experts = CheckedInt{experts} * matrices_ * expert_in * expert_width;
  kinds_[kExperts].expert_stream = hidden * stream * 2;
  kinds_[kExperts].router = hidden * experts;
  const std::int64_t shared_count =
      config.integer_or({"n_shared_experts", "num_shared_experts"}, limits::kExperts, 0);
  const std::int64_t shared_width =
      first_width(config, {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                           "shared_intermediate_size"});
  CheckedInt shared =
      shared_width > 0 ? CheckedInt{shared_width} : CheckedInt{shared_count} * expert_width;
  if (llama4) {
    shared = CheckedInt{dense};
    dense = first_width(config, {"intermediate_size_mlp", "intermediate_size"});
  }
  if (has_experts_) {
    kinds_[kExperts].shared_experts = shared * matrices_ * hidden;
  }
  kinds_[kDense].dense = CheckedInt{dense} * matrices_ * hidden;
  // Both in one layer.
  if (config.boolean("enable_moe_block").value_or(false)) {
    kinds_[kExperts].dense = kinds_[kDense].dense;
  }
  lacks_width_ = has_experts_ ? expert_width == 0 : dense == 0 && !config.has("block_configs");
}

bool MlpWeights::place_blocks(const JsonReader& config, const ModelFields& fields,
                              const LayerKinds& kinds) {
  // Models whose layers are either a mixer or a feed-forward part.
  const auto letters = config.text("hybrid_override_pattern");
  const Json::Array* names = config.list("layers_block_type");
  if (letters.has_value()) {
    for (std::size_t i = 0; i < by_layer_.size(); ++i) {
      by_layer_[i] = (*letters)[i] == 'E' ? kExperts : (*letters)[i] == '-' ? kDense : kNone;
    }
    return true;
  }
  if (names != nullptr && !config.has("layer_types")) {
    for (std::size_t i = 0; i < by_layer_.size(); ++i) {
      const std::string* name = (*names)[i].text();
      const bool moe = name != nullptr && *name == "moe";
      by_layer_[i] = moe ? kExperts : kinds.kinds[i] == LayerKind::kNone ? kDense : kNone;
    }
    return true;
  }
  // Models whose feed-forward width differs by layer.
  const Json::Array* blocks = config.list("block_configs");
  if (blocks == nullptr || blocks->size() != by_layer_.size()) {
    return false;
  }
  const CheckedInt hidden{fields.hidden_size};
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    by_layer_[i] = kNone;
    const Json* ffn = (*blocks)[i].find("ffn");
    if (ffn == nullptr || ffn->object() == nullptr) {
      continue;
    }
    const JsonReader block{
        *ffn, config.dotted("block_configs") + "[" + std::to_string(i) + "].ffn.", config.file()};
    CheckedInt size{0};
    const Json* factor = ffn->find("ffn_mult");
    if (block.boolean("no_op").value_or(false)) {
      continue;
    }
    if (block.boolean("replace_with_linear").value_or(false)) {
      size = hidden * hidden;
    } else if (block.has("intermediate_size")) {
      size = hidden * width(block, "intermediate_size") * 3;
    } else if (factor != nullptr && (factor->real() != nullptr || factor->integer() != nullptr)) {
      const double f =
          factor->real() != nullptr ? *factor->real() : static_cast<double>(*factor->integer());
      if (f > 0 && f < 1024) {
        const double w = f * 2.0 * static_cast<double>(fields.hidden_size) / 3.0;
        size = hidden * ceil_div(CheckedInt{static_cast<std::int64_t>(w)}, 256) * 256 * 3;
      }
    }
    MlpParameters special;
    special.dense = size;
    by_layer_[i] = kinds_.size();
    kinds_.push_back(special);
  }
  return true;
}

void MlpWeights::place(const JsonReader& config, const ModelFields& fields,
                       const LayerKinds& /*kinds*/) {
  if (!has_experts_) {
    return;
  }
  std::ranges::fill(by_layer_, kExperts);
  const auto types = config.texts("mlp_layer_types");
  const Json* frequency = config.find("moe_layer_freq");
  const std::int64_t first_dense =
      config.integer_or({"first_k_dense_replace"}, limits::kLayersOrNone, 0);
  std::int64_t step = config.integer_or({"decoder_sparse_step", "interleave_moe_layer_step"},
                                        limits::kLayersOrNone, 1);
  std::optional<std::vector<std::int64_t>> listed;
  std::int64_t every = 1;
  if (frequency != nullptr && frequency->array() != nullptr) {
    listed = config.integers("moe_layer_freq", {0, 1});
  } else {
    every = config.integer_or({"moe_layer_freq"}, limits::kLayers, 1);
  }
  for (std::int64_t i = 0; i < fields.layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    bool experts = i >= first_dense && i % every == 0 && (step == 0 || (i + 1) % step == 0);
    if (step == 0) {
      experts = false;
    }
    if (types.has_value() && at < types->size()) {
      experts = (*types)[at] == "sparse";
    }
    if (listed.has_value() && at < listed->size()) {
      experts = (*listed)[at] == 1;
    }
    by_layer_[at] = experts ? kExperts : kDense;
  }
  if (const auto dense = config.integers("mlp_only_layers", {0, fields.layers - 1})) {
    for (const std::int64_t i : *dense) {
      by_layer_[static_cast<std::size_t>(i)] = kDense;
    }
  }
}

void MlpWeights::read_encoder(const JsonReader& config, const ModelFields& fields) {
  const std::int64_t layers = config.integer_or({"encoder_layers"}, limits::kLayersOrNone, 0);
  if (layers == 0 || !fields.cross_positions.has_value()) {
    return;
  }
  const CheckedInt hidden{fields.hidden_size};
  const std::int64_t inner = first_width(config, {"encoder_ffn_dim"});
  encoder_ = (hidden * hidden * 4 + hidden * inner * 2) * layers;
}

}  // namespace kvpool::io::detail
