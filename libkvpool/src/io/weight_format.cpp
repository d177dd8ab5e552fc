// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "quantization.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

namespace kvpool::io::detail {
namespace {

constexpr std::int64_t kFp8 = 800;
constexpr std::int64_t kNvfp4 = 450;  // 4 bits and an 8-bit scale per 16
constexpr std::int64_t kMxfp4 = 425;  // 4 bits and an 8-bit scale per 32
constexpr std::int64_t kMxfp8 = 825;  // 8 bits and an 8-bit scale per 32
constexpr std::int64_t kInt4 = 416;   // 4 bits, a 16-bit scale and a 4-bit zero per 128

std::size_t index_of(WeightPart part) { return static_cast<std::size_t>(part); }

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

struct Algo {
  std::string_view name;
  std::int64_t centibits;
};

constexpr std::array kAlgos{
    Algo{"FP8", kFp8},
    Algo{"FP8_PB_WO", kFp8},
    Algo{"FP8_BLOCK_SCALES", kFp8},
    Algo{"FP8_PER_CHANNEL_PER_TOKEN", kFp8},
    Algo{"W8A8_SQ_PER_CHANNEL", kFp8},
    Algo{"INT8", kFp8},
    Algo{"W8A16", kFp8},
    Algo{"NVFP4", kNvfp4},
    Algo{"W4A16_NVFP4", kNvfp4},
    Algo{"W4A8_NVFP4_FP8", kNvfp4},
    Algo{"NVFP4_AWQ", kNvfp4},
    Algo{"MXFP4", kMxfp4},
    Algo{"W4A8_MXFP4_FP8", kMxfp4},
    Algo{"W4A16_MXFP4", kMxfp4},
    Algo{"MXFP8", kMxfp8},
    Algo{"INT4_AWQ", kInt4},
    Algo{"W4A16_AWQ", kInt4},
    Algo{"W4A8_AWQ", kInt4},
    Algo{"W4A16", kInt4},
};

std::int64_t algo_centibits(std::string_view name) {
  const auto at =
      std::ranges::find_if(kAlgos, [name](const Algo& algo) { return algo.name == name; });
  return at == kAlgos.end() ? 0 : at->centibits;
}

// Bits of a group of compressed-tensors: `num_bits`, and scales by group size.
std::int64_t group_centibits(const JsonReader& weights) {
  const std::int64_t bits = weights.integer_or({"num_bits"}, {1, 64}, 16);
  const std::int64_t group = weights.integer_or({"group_size"}, {-1, limits::kDim.high}, 0);
  const bool is_float = weights.text("type").value_or("int") == "float";
  if (is_float && bits == 4) {
    return group == 16 ? kNvfp4 : kMxfp4;
  }
  const std::int64_t scale =
      group > 0 ? (is_float ? std::int64_t{800} : std::int64_t{1600}) / group : 0;
  return bits * 100 + scale;
}

void read_skips(const JsonReader& section, WeightFormat& format) {
  for (const std::string_view key :
       {"ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers"}) {
    const Json* value = section.find(key);
    const Json::Array* patterns = value == nullptr ? nullptr : value->array();
    if (patterns == nullptr) {
      continue;
    }
    for (const Json& pattern : *patterns) {
      if (pattern.text() != nullptr) {
        format.skip(*pattern.text());
      }
    }
  }
}

// `quantized_layers`: an algorithm per module; the last one of a part stands for it.
bool read_quantized_layers(const JsonReader& section, WeightFormat& format) {
  const Json* layers = section.find("quantized_layers");
  if (layers == nullptr || layers->object() == nullptr) {
    return false;
  }
  for (const Json::Member& member : *layers->object()) {
    const auto part = weight_part(member.key);
    const Json* algo = member.value.find("quant_algo");
    if (part.has_value() && algo != nullptr && algo->text() != nullptr) {
      format.set(*part, algo_centibits(*algo->text()));
    }
  }
  format.set_name("mixed precision");
  return true;
}

// `config_groups`: bits per group; a group that targets "Linear" is everything.
bool read_groups(const JsonReader& section, WeightFormat& format) {
  const Json* groups = section.find("config_groups");
  if (groups == nullptr || groups->object() == nullptr) {
    return false;
  }
  bool any = false;
  for (const Json::Member& member : *groups->object()) {
    const Json* weights = member.value.find("weights");
    if (weights == nullptr || weights->object() == nullptr) {
      continue;
    }
    const std::string name =
        section.dotted("config_groups") + "." + shorten(member.key) + ".weights.";
    const std::int64_t bits = group_centibits(JsonReader{*weights, name, section.file()});
    const Json* targets = member.value.find("targets");
    bool everything = targets == nullptr || targets->array() == nullptr;
    if (!everything) {
      for (const Json& target : *targets->array()) {
        if (target.text() == nullptr) {
          continue;
        }
        if (const auto part = weight_part(*target.text())) {
          format.set(*part, bits);
        } else if (*target.text() == "Linear") {
          everything = true;
        }
      }
    }
    if (everything) {
      format.set_all(bits, {});
    }
    any = true;
  }
  return any;
}

std::string format_name(const JsonReader& section) {
  for (const std::string_view key : {"quant_algo", "format", "quant_method"}) {
    const Json* value = section.find(key);
    if (value != nullptr && value->text() != nullptr) {
      return shorten(*value->text());
    }
  }
  return "quantised";
}

void read_section(const JsonReader& section, WeightFormat& format) {
  const std::string method = section.text("quant_method").value_or("");
  const std::string algo = section.text("quant_algo").value_or("");
  const std::int64_t bits = section.integer_or({"bits", "w_bit"}, {1, 64}, 4);
  const std::int64_t group =
      section.integer_or({"group_size", "q_group_size"}, {-1, limits::kDim.high}, 128);
  if (read_quantized_layers(section, format)) {
    read_skips(section, format);
    return;
  }
  format.set_name(format_name(section));
  if (const std::int64_t known = algo_centibits(algo); known != 0) {
    format.set_all(known, algo);
  } else if (read_groups(section, format)) {
    format.set_name(format_name(section));
  } else if (method == "mxfp4") {
    format.set(WeightPart::kExperts, kMxfp4);
  } else if (method == "fp8" || method == "fbgemm_fp8" || method == "ptpc_fp8") {
    format.set_all(kFp8, method);
  } else if (method == "awq" || method == "gptq" || method == "auto-round") {
    format.set_all(bits * 100 + (group > 0 ? 2000 / group : 0), method);
  } else if (method == "bitsandbytes") {
    const bool four = section.boolean("load_in_4bit").value_or(false) ||
                      section.boolean("_load_in_4bit").value_or(false);
    format.set_all(four ? kNvfp4 : kFp8, method);
  } else {
    format.set_name(format_name(section) + " (not known: counted in the native type)");
  }
  read_skips(section, format);
}

// The number after "layers.", or nothing; `rest` becomes what follows it.
std::optional<std::int64_t> layer_number(std::string_view path, std::string_view& rest) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = path.find(kLayers);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const char* first = path.data() + at + kLayers.size();
  const char* last = path.data() + path.size();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(first, last, number);
  if (error != std::errc{} || number < 0) {
    return std::nullopt;
  }
  rest = path.substr(static_cast<std::size_t>(end - path.data()));
  return number;
}

}  // namespace

std::optional<WeightPart> weight_part(std::string_view path) {
  for (const std::string_view small :
       {"norm", "router", "indexer", "conv1d", "bias", "vision", "visual", "audio", "mm_projector",
        "multi_modal", "embed", "shared_expert_gate", "lm_head"}) {
    if (has(path, small)) {
      return std::nullopt;
    }
  }
  constexpr std::string_view kGate = "gate";
  if (path.size() >= kGate.size() && path.substr(path.size() - kGate.size()) == kGate) {
    return std::nullopt;  // the router
  }
  if (has(path, "shared_expert")) {
    return WeightPart::kSharedExperts;
  }
  if (has(path, "experts")) {
    return WeightPart::kExperts;
  }
  if (has(path, "linear_attn") || has(path, "mamba") || has(path, "in_proj") ||
      has(path, "out_proj")) {
    return WeightPart::kRecurrent;
  }
  if (has(path, "attn") || has(path, "attention") || has(path, "q_proj") || has(path, "o_proj")) {
    return WeightPart::kAttention;
  }
  if (has(path, "mlp") || has(path, "feed_forward") || has(path, "ffn")) {
    return WeightPart::kDenseMlp;
  }
  return std::nullopt;
}

std::int64_t WeightFormat::centibits(WeightPart part, std::int64_t layer) const {
  const Skips& skips = skips_[index_of(part)];
  const bool skipped =
      skips.everywhere || skips.layers.count(layer) != 0 || whole_layers_.count(layer) != 0;
  return skipped ? 0 : centibits_[index_of(part)];
}

std::int64_t WeightFormat::mtp_centibits(WeightPart part, std::int64_t layer) const {
  return mtp_skipped_ ? 0 : centibits(part, layer);
}

void WeightFormat::set_all(std::int64_t centibits, std::string name) {
  centibits_.fill(centibits);
  name_ = std::move(name);
}

void WeightFormat::set(WeightPart part, std::int64_t centibits) {
  centibits_[index_of(part)] = centibits;
}

void WeightFormat::skip(std::string_view pattern) {
  if (pattern.substr(0, 3) == "mtp") {
    mtp_skipped_ = true;
    return;
  }
  std::string_view rest = pattern;
  const auto layer = layer_number(pattern, rest);
  if (layer.has_value()) {
    while (!rest.empty() && (rest.back() == '*' || rest.back() == '.')) {
      rest.remove_suffix(1);
    }
    if (rest.empty() || rest == ".mixer") {
      if (!has(pattern, "vision") && !has(pattern, "visual")) {
        whole_layers_.insert(*layer);
      }
      return;
    }
  }
  const auto part = weight_part(layer.has_value() && !has(pattern, "vision") ? rest : pattern);
  if (!part.has_value()) {
    return;
  }
  Skips& skips = skips_[index_of(*part)];
  if (layer.has_value()) {
    skips.layers.insert(*layer);
  } else {
    skips.everywhere = true;
  }
}

WeightFormat read_weight_format(const JsonReader& config, const JsonReader* beside) {
  WeightFormat format;
  if (const auto quantization = config.child("quantization_config")) {
    read_section(*quantization, format);
  } else if (beside != nullptr) {
    const auto nested = beside->child("quantization");
    read_section(nested.has_value() ? *nested : *beside, format);
  }
  return format;
}

}  // namespace kvpool::io::detail
