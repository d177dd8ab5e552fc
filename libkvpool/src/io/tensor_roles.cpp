// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_roles.hpp"

#include <kvpool/core/checked.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace kvpool::io::detail {
namespace {

using Names = std::span<const std::string_view>;

/// How the matrix of a module is divided over tensor parallel ranks.
enum class Cut {
  kNone,     ///< not at all
  kColumns,  ///< outputs: rows of the stored matrix, and whatever there is per output
  kRows,     ///< inputs; what there is per output is kept whole
};

struct Module {
  std::string_view name;
  Cut cut;
  /// Divided by KV heads and not by query heads.
  bool is_kv = false;
};

/// Modules of attention and of recurrent layers.
constexpr std::array kMixers{
    Module{"q_proj", Cut::kColumns},
    Module{"k_proj", Cut::kColumns, true},
    Module{"v_proj", Cut::kColumns, true},
    Module{"o_proj", Cut::kRows},
    Module{"q_b_proj", Cut::kColumns},
    Module{"kv_b_proj", Cut::kColumns},
    Module{"q_a_proj", Cut::kNone},
    Module{"kv_a_proj_with_mqa", Cut::kNone},
    Module{"kv_a_proj", Cut::kNone},
    Module{"wq", Cut::kColumns},
    Module{"wk", Cut::kColumns, true},
    Module{"wv", Cut::kColumns, true},
    Module{"wo", Cut::kRows},
    Module{"g_proj", Cut::kColumns},
    Module{"b_proj", Cut::kColumns},
    Module{"f_b_proj", Cut::kColumns},
    Module{"g_b_proj", Cut::kColumns},
    Module{"f_a_proj", Cut::kNone},
    Module{"g_a_proj", Cut::kNone},
    Module{"q_conv1d", Cut::kColumns},
    Module{"k_conv1d", Cut::kColumns},
    Module{"v_conv1d", Cut::kColumns},
    Module{"in_proj", Cut::kColumns},
    Module{"in_proj_qkvz", Cut::kColumns},
    Module{"in_proj_qkv", Cut::kColumns},
    Module{"in_proj_z", Cut::kColumns},
    Module{"in_proj_ba", Cut::kColumns},
    Module{"in_proj_a", Cut::kColumns},
    Module{"in_proj_b", Cut::kColumns},
    Module{"conv1d", Cut::kColumns},
    Module{"conv", Cut::kColumns},
    Module{"out_proj", Cut::kRows},
    Module{"A_log", Cut::kColumns},
    Module{"dt_bias", Cut::kColumns},
    Module{"D", Cut::kColumns},
    Module{"sinks", Cut::kColumns},
    Module{"dense", Cut::kRows},
};

/// Modules that hold queries, keys and values together.
constexpr std::array<std::string_view, 6> kFused{"qkv_proj", "query_key_value", "Wqkv",
                                                 "wqkv",     "c_attn",          "W_pack"};

/// Modules of feed-forward parts and of one expert.
constexpr std::array kFeedForward{
    Module{"gate_proj", Cut::kColumns},
    Module{"up_proj", Cut::kColumns},
    Module{"gate_up_proj", Cut::kColumns},
    Module{"down_proj", Cut::kRows},
    Module{"w1", Cut::kColumns},
    Module{"w3", Cut::kColumns},
    Module{"w2", Cut::kRows},
    Module{"fc1", Cut::kColumns},
    Module{"fc2", Cut::kRows},
    Module{"c_fc", Cut::kColumns},
    Module{"c_proj", Cut::kRows},
    Module{"dense_h_to_4h", Cut::kColumns},
    Module{"dense_4h_to_h", Cut::kRows},
    Module{"input_linear", Cut::kColumns},
    Module{"output_linear", Cut::kRows},
    Module{"linear_fc1", Cut::kColumns},
    Module{"linear_fc2", Cut::kRows},
};

constexpr std::array<std::string_view, 5> kRouters{"gate", "router", "shared_expert_gate",
                                                   "e_score_correction_bias", "expert_bias"};

/// Parts of names of encoders and of what joins them to the text model.
constexpr std::array<std::string_view, 13> kEncoders{
    "visual",       "vision",      "audio",   "mm_projector", "multi_modal_projector",
    "image_",       "patch_emb",   "sound",   "aligner",      "resampler",
    "embed_vision", "embed_audio", "mm_input"};

constexpr std::array<std::string_view, 8> kTables{
    "embed_tokens",           "wte",        "word_embeddings", "tok_embeddings", "embed_in",
    "embed_tokens_per_layer", "embeddings", "embedding"};
constexpr std::array<std::string_view, 3> kHeads{"lm_head", "embed_out", "output"};

/// What checkpoints store beside a matrix, as the last part of the name.
constexpr std::array<std::string_view, 21> kSuffixes{"weight",
                                                     "bias",
                                                     "weight_packed",
                                                     "weight_scale",
                                                     "weight_scale_inv",
                                                     "weight_scale_2",
                                                     "weight_global_scale",
                                                     "weight_zero_point",
                                                     "weight_shape",
                                                     "weight_g_idx",
                                                     "input_scale",
                                                     "input_global_scale",
                                                     "k_scale",
                                                     "v_scale",
                                                     "output_scale",
                                                     "qweight",
                                                     "qzeros",
                                                     "scales",
                                                     "g_idx",
                                                     "absmax",
                                                     "quant_map"};

[[nodiscard]] bool is_one_of(std::string_view word, Names words) {
  return std::ranges::find(words, word) != words.end();
}

[[nodiscard]] bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

[[nodiscard]] bool has_any(std::string_view text, Names parts) {
  return std::ranges::any_of(parts, [text](std::string_view part) { return has(text, part); });
}

[[nodiscard]] std::string_view last_part(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

[[nodiscard]] std::string_view without_last(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

/// The whole number at the start of `text` if a dot or the end follows; `rest` is what is behind.
[[nodiscard]] std::optional<std::int64_t> leading_number(std::string_view text,
                                                         std::string_view& rest) {
  std::int64_t number = 0;
  const char* const first = text.data();
  const char* const last = first + text.size();
  const auto [end, error] = std::from_chars(first, last, number);
  if (error != std::errc{} || number < 0 || (end != last && *end != '.')) {
    return std::nullopt;
  }
  rest = end == last ? std::string_view{} : std::string_view{end + 1, last};
  return number;
}

/// A name with a larger number is none of a layer.
constexpr std::int64_t kMostLayers = 100'000;

/// The layer's number behind `layers.`, `h.`, `blocks.`; `before` and `rest` are around it.
[[nodiscard]] std::optional<std::int64_t> layer_number(std::string_view name,
                                                       std::string_view& before,
                                                       std::string_view& rest) {
  for (const std::string_view marker : {"layers.", "h.", "blocks.", "block.", "layer."}) {
    std::size_t at = name.find(marker);
    while (at != std::string_view::npos) {
      if (at == 0 || name[at - 1] == '.') {
        const auto number = leading_number(name.substr(at + marker.size()), rest);
        if (number.has_value() && *number <= kMostLayers) {
          before = name.substr(0, at);
          return number;
        }
      }
      at = name.find(marker, at + 1);
    }
  }
  return std::nullopt;
}

/// Name of a module, and what of it a tensor holds.
struct ModuleName {
  std::string_view module;
  std::string_view suffix;
};

[[nodiscard]] ModuleName split_module(std::string_view path) {
  const std::string_view last = last_part(path);
  if (is_one_of(last, kSuffixes)) {
    return {last_part(without_last(path)), last};
  }
  // `gate_up_proj_blocks`, `down_proj_scales`, `gate_up_proj_bias`: experts stored together.
  for (const std::string_view ending : {"_blocks", "_scales", "_bias", "_weight_scale",
                                        "_weight_scale_inv", "_weight_scale_2", "_input_scale"}) {
    if (last.ends_with(ending) && last.size() > ending.size()) {
      const std::string_view stem = last.substr(0, last.size() - ending.size());
      if (std::ranges::find(kFeedForward, stem, &Module::name) != kFeedForward.end()) {
        return {stem, ending.substr(1)};
      }
    }
  }
  return {last, "weight"};
}

template <std::size_t kCount>
[[nodiscard]] const Module* find_module(const std::array<Module, kCount>& modules,
                                        std::string_view name) {
  const auto* const found = std::ranges::find(modules, name, &Module::name);
  return found == modules.end() ? nullptr : found;
}

/// Formats that store a matrix as inputs times outputs.
[[nodiscard]] bool is_transposed(std::string_view suffix) {
  return suffix == "qweight" || suffix == "qzeros" || suffix == "scales";
}

/// Extent of what a cut divides; 1 where a tensor has nothing to divide and is kept whole.
[[nodiscard]] std::int64_t cut_extent(Cut cut, std::string_view suffix,
                                      const std::vector<std::int64_t>& shape) {
  const std::int64_t first = shape.empty() ? 1 : shape.front();
  const std::int64_t second = shape.size() < 2 ? 1 : shape[1];
  switch (cut) {
    case Cut::kNone: return 1;
    case Cut::kColumns: return is_transposed(suffix) && shape.size() > 1 ? second : first;
    case Cut::kRows:
      if (suffix == "g_idx" || suffix == "weight_g_idx") {
        return first;
      }
      return is_transposed(suffix) ? (shape.size() > 1 ? first : 1) : second;
  }
  return 1;
}

/// Small facts about a tensor that no rank divides.
[[nodiscard]] bool is_small_fact(std::string_view suffix, const std::vector<std::int64_t>& shape) {
  if (suffix == "weight_shape" || suffix == "k_scale" || suffix == "v_scale" ||
      suffix == "output_scale" || suffix == "input_scale" || suffix == "input_global_scale" ||
      suffix == "weight_scale_2" || suffix == "weight_global_scale") {
    return true;
  }
  return std::ranges::all_of(shape, [](std::int64_t extent) { return extent <= 1; });
}

[[nodiscard]] LayerHeads heads_of(const std::vector<LayerCache>& caches) {
  LayerHeads out;
  for (const LayerCache& cache : caches) {
    if (const auto* a = std::get_if<AttentionCache>(&cache)) {
      out.query = a->query_heads.count();
      out.kv = a->kv_heads.count();
      out.query_rows = out.query * a->key_dim;
      out.kv_rows = out.kv * (a->key_dim + a->value_dim);
    } else if (const auto* l = std::get_if<LatentCache>(&cache)) {
      out.query = l->query_heads.count();
      out.kv = 1;
    } else if (const auto* s = std::get_if<StateCache>(&cache)) {
      out.query = s->heads;
      out.kv = s->heads;
    }
  }
  return out;
}

/// Bytes of a tensor once loaded: matrices in 32 bits become the model's own 16.
[[nodiscard]] Bytes loaded_bytes(const StoredTensor& tensor, std::string_view suffix,
                                 std::string_view module, const ModelConfig& model) {
  const bool narrow = model.native_dtype == KvDtype::kBf16 || model.native_dtype == KvDtype::kFp16;
  const bool matrix = tensor.shape.size() >= 2 && (suffix == "weight" || suffix == "bias");
  if (narrow && matrix && tensor.dtype == "F32" && !is_one_of(module, kRouters) &&
      !has(module, "conv")) {
    return Bytes{tensor.bytes.count() / 2};
  }
  return tensor.bytes;
}

}  // namespace

TensorRoles::TensorRoles(const ModelConfig& model)
    : model_{model}, next_token_{heads_of(model.mtp_layer)} {
  layers_.reserve(model.layers.size());
  for (const ModelLayer& layer : model.layers) {
    const std::size_t owner = layer.shares_with.has_value()
                                  ? static_cast<std::size_t>(layer.shares_with->value())
                                  : layers_.size();
    layers_.push_back(
        heads_of(owner < model.layers.size() ? model.layers[owner].caches : layer.caches));
  }
}

const LayerHeads& TensorRoles::heads(const WeightPart& part) const {
  return part.place == WeightPlace::kLayer ? layers_[static_cast<std::size_t>(part.layer)]
                                           : next_token_;
}

void TensorRoles::place(std::string_view name, TensorRole& role, std::string_view& module) const {
  WeightPart& part = role.part;
  std::string_view before = name;
  std::string_view rest = name;
  const auto number = layer_number(name, before, rest);
  module = number.has_value() ? rest : name;
  const std::string_view outer = number.has_value() ? before : name;
  const bool next_token = name.starts_with("mtp") || has(outer, ".mtp");
  if (!next_token && (has_any(outer, kEncoders) || has(outer, "encoder."))) {
    part.place = WeightPlace::kEncoder;
    part.split = WeightSplit::kUnsure;
    return;
  }
  if (number.has_value()) {
    const auto layers = static_cast<std::int64_t>(layers_.size());
    const bool behind = next_token || *number >= layers;
    part.place = behind ? WeightPlace::kNextToken : WeightPlace::kLayer;
    part.layer = next_token ? std::min(layers + *number, kMostLayers) : *number;
    return;
  }
  if (next_token) {
    part.place = WeightPlace::kNextToken;
    part.layer = static_cast<std::int64_t>(layers_.size());
    return;
  }
  if (name.starts_with("midlayer.")) {
    part.place = WeightPlace::kLayer;  // the one layer of an Eagle3 head
    module = name.substr(std::string_view{"midlayer."}.size());
    return;
  }
  part.place = WeightPlace::kHead;
}

void TensorRoles::divide_fused(const LayerHeads& heads, TensorRole& role) const {
  const std::int64_t rows = heads.query_rows + heads.kv_rows;
  role.part.split = WeightSplit::kAttention;
  if (rows == 0) {
    return;
  }
  const std::int64_t of_kv =
      floor_div(CheckedInt{role.part.bytes.count()} * heads.kv_rows, CheckedInt{rows}).saturated();
  WeightPart kv = role.part;
  kv.bytes = Bytes{of_kv};
  kv.units = heads.kv;
  role.second = kv;
  role.part.bytes = role.part.bytes - kv.bytes;
  role.part.units = heads.query;
}

void TensorRoles::divide_layer(std::string_view path, const StoredTensor& tensor,
                               TensorRole& role) const {
  WeightPart& part = role.part;
  const auto [module, suffix] = split_module(path);
  const bool shared_experts = has(path, "shared_expert");
  const std::size_t experts = path.find("experts.");
  if (!shared_experts && experts != std::string_view::npos && !is_one_of(module, kRouters)) {
    part.split = WeightSplit::kExperts;
    std::string_view rest;
    role.expert = leading_number(path.substr(experts + std::string_view{"experts."}.size()), rest);
    if (!role.expert.has_value()) {
      part.units = tensor.shape.empty() ? 1 : std::max<std::int64_t>(1, tensor.shape.front());
      part.inner_units = tensor.shape.size() < 2 ? 1 : 0;
      return;
    }
    const Module* known = find_module(kFeedForward, module);
    role.unknown = known == nullptr;
    part.inner_units = known == nullptr || is_small_fact(suffix, tensor.shape)
                           ? 1
                           : cut_extent(known->cut, suffix, tensor.shape);
    return;
  }
  part.split = WeightSplit::kReplicated;
  if (has(path, "norm") || has(path, "indexer") || has(path, "rotary") ||
      is_one_of(module, kRouters) || is_small_fact(suffix, tensor.shape)) {
    // The gated norm of Mamba-2 has a factor per inner channel, which ranks divide.
    if (module == "norm" && has(path, "mixer.")) {
      part.split = WeightSplit::kAttention;
    }
    return;
  }
  if (is_one_of(module, kFused) && !has(path, "mlp")) {
    divide_fused(heads(part), role);
    return;
  }
  const bool of_mlp =
      has(path, "mlp") || has(path, "feed_forward") || has(path, "ffn") || shared_experts;
  if (const Module* known = find_module(kFeedForward, module);
      known != nullptr && (of_mlp || find_module(kMixers, module) == nullptr)) {
    const std::int64_t extent = cut_extent(known->cut, suffix, tensor.shape);
    // A projection of attention in files that name it like one of the MLP.
    part.split = extent <= 1         ? WeightSplit::kReplicated
                 : has(path, "attn") ? WeightSplit::kAttention
                                     : WeightSplit::kTensor;
    part.units = extent <= 1 ? 0 : extent;
    return;
  }
  if (const Module* known = find_module(kMixers, module)) {
    if (known->cut == Cut::kNone || cut_extent(known->cut, suffix, tensor.shape) <= 1) {
      return;
    }
    const LayerHeads& counts = heads(part);
    part.split = WeightSplit::kAttention;
    part.units = known->is_kv ? counts.kv : counts.query;
    return;
  }
  if (tensor.shape.size() < 2) {
    return;  // a factor per channel of the residual stream
  }
  part.split = WeightSplit::kUnsure;
  role.unknown = true;
}

TensorRole TensorRoles::of(const StoredTensor& tensor) const {
  TensorRole role;
  std::string_view path;
  place(tensor.name, role, path);
  const auto [module, suffix] = split_module(path);
  WeightPart& part = role.part;
  part.bytes = loaded_bytes(tensor, suffix, module, model_);
  if (has(tensor.name, "inv_freq") || module == "t2d") {
    role.unused = true;
    return role;
  }
  if (part.place == WeightPlace::kEncoder) {
    return role;
  }
  if (part.place == WeightPlace::kHead) {
    const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape.front();
    if (is_one_of(module, kTables)) {
      part.place = WeightPlace::kEmbedding;
      part.split = rows > 1 ? WeightSplit::kTensor : WeightSplit::kReplicated;
      part.units = rows > 1 ? rows : 0;
    } else if (is_one_of(module, kHeads)) {
      role.is_head = true;
      part.split = rows > 1 ? WeightSplit::kTensor : WeightSplit::kReplicated;
      part.units = rows > 1 ? rows : 0;
    } else if (tensor.shape.size() < 2 || module == "fc" || has(path, "norm")) {
      part.split = WeightSplit::kReplicated;
    } else {
      part.split = WeightSplit::kUnsure;
      role.unknown = true;
    }
    return role;
  }
  if (part.place == WeightPlace::kNextToken) {
    // A table or head of its own, and the projection of two hidden states.
    if (is_one_of(module, kTables) || is_one_of(module, kHeads) || module == "head") {
      part.split = WeightSplit::kTensor;
      part.units = tensor.shape.empty() ? 0 : tensor.shape.front();
      return role;
    }
    if (module == "eh_proj" || module == "fc") {
      part.split = WeightSplit::kReplicated;
      return role;
    }
  }
  divide_layer(path, tensor, role);
  return role;
}

}  // namespace kvpool::io::detail
