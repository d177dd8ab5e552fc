// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/config_lint.hpp>

#include <kvpool/io/checkpoint.hpp>
#include <kvpool/plan/memory_budget.hpp>

#include "io/checkpoint_files.hpp"
#include "io/ignored_keys.hpp"
#include "io/json_reader.hpp"
#include "io/json_value.hpp"
#include "io/model_assembly.hpp"
#include "io/model_fields.hpp"
#include "io/text_file.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace kvpool::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kQuantName = "hf_quant_config.json";
/// An estimate that is further from the stored bytes than this many hundredths is a finding.
constexpr std::int64_t kEstimatePercent = 5;

/// Collects findings of one file.
class Findings {
 public:
  explicit Findings(std::string file) : file_{std::move(file)} {}

  void add(FindingKind kind, std::string key, std::string value, std::string message) {
    all_.push_back({.kind = kind,
                    .file = file_,
                    .key = std::move(key),
                    .value = std::move(value),
                    .message = std::move(message)});
  }
  /// What made the reader stop.
  void add(const Error& error) {
    all_.push_back({.kind = error.code == ErrorCode::kUnsupported ? FindingKind::kNotUnderstood
                                                                  : FindingKind::kContradictory,
                    .file = error.file.empty() ? file_ : error.file,
                    .key = error.key,
                    .value = error.value,
                    .message = error.message});
  }
  [[nodiscard]] std::vector<Finding> take() && { return std::move(all_); }

 private:
  std::string file_;
  std::vector<Finding> all_;
};

/// null, false, 0 and what is empty.
[[nodiscard]] bool is_off(const detail::Json& value) {
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
  return value.is_null() || (value.text() != nullptr && value.text()->empty());
}

/// Keys that nothing asked for, and the type of the model.
void look_at_keys(const detail::JsonReader& config, const std::set<std::string, std::less<>>& asked,
                  Findings& findings) {
  std::set<std::string_view> seen;
  for (const std::string_view key : config.keys()) {
    if (asked.contains(key) || detail::is_ignored_key(key) || !seen.insert(key).second) {
      continue;
    }
    const detail::Json* value = config.peek(key);
    if (value == nullptr || is_off(*value)) {
      continue;  // switches nothing on
    }
    findings.add(FindingKind::kNotUnderstood, detail::shorten(config.dotted(key), 120),
                 value->shortened(),
                 "no rule reads this key: if it changes what layers cache or weigh, the plan does "
                 "not know");
  }
  const auto type = config.text("model_type");
  if (!type.has_value()) {
    findings.add(FindingKind::kDefaulted, "model_type", {},
                 "absent: layers are told by the other keys alone");
  } else if (!detail::is_known_model_type(*type)) {
    findings.add(FindingKind::kNotUnderstood, config.dotted("model_type"), detail::shorten(*type),
                 "this type of model is not known here: its layers are priced by their keys");
  }
}

/// Figures that the config leaves to be taken from others.
void look_at_facts(const ModelConfig& model, Findings& findings) {
  for (const ConfigFact& fact : model.facts) {
    if (fact.rule.starts_with("no head_dim:") || fact.rule.starts_with("no num_key_value_heads:")) {
      findings.add(FindingKind::kDefaulted, fact.key, fact.value, fact.figure + ": " + fact.rule);
    }
  }
}

/// The longest window of a layer in tokens; 0 without any.
[[nodiscard]] std::int64_t longest_window(const ModelConfig& model) {
  std::int64_t longest = 0;
  for (const ModelLayer& layer : model.layers) {
    for (const LayerCache& cache : layer.caches) {
      const auto* attention = std::get_if<AttentionCache>(&cache);
      if (attention != nullptr && attention->span.kind == SpanKind::kSlidingWindow) {
        longest = std::max(longest, attention->span.extent.count());
      }
    }
  }
  return longest;
}

void look_at_defaults(const detail::JsonReader& config, const ModelConfig& model,
                      Findings& findings) {
  if (!model.native_dtype.has_value()) {
    findings.add(FindingKind::kDefaulted, "dtype", {},
                 "absent (torch_dtype, too): weights and cache count as bf16");
  }
  if (!model.max_positions.has_value() && !model.drafter.has_value()) {
    findings.add(FindingKind::kDefaulted, "max_position_embeddings", {},
                 "absent: a plan needs --max-model-len");
  }
  if (!model.drafter.has_value() && !config.mentions("tie_word_embeddings")) {
    findings.add(FindingKind::kDefaulted, "tie_word_embeddings", {},
                 "absent: the estimate of the weights follows the family's habit");
  }
  constexpr std::string_view kMissing = "not counted: ";
  if (const std::size_t at = model.parameters.basis.find(kMissing);
      at != std::string::npos && !model.drafter.has_value()) {
    findings.add(FindingKind::kNotUnderstood, {}, {},
                 "the estimate of the weights leaves out " +
                     model.parameters.basis.substr(at + kMissing.size()));
  }
}

/// Types, windows, lists of layers and the model's name against each other.
void look_for_contradictions(const detail::JsonReader& config, const ModelConfig& model,
                             Findings& findings) {
  const auto dtype = config.text("dtype");
  const auto torch_dtype = config.text("torch_dtype");
  if (dtype.has_value() && torch_dtype.has_value() && *dtype != *torch_dtype) {
    findings.add(FindingKind::kContradictory, config.dotted("torch_dtype"), *torch_dtype,
                 "differs from " + config.dotted("dtype") + " = " + *dtype +
                     ", which is the one that counts");
  }
  const std::int64_t window = longest_window(model);
  if (model.max_positions.has_value() && window > model.max_positions->count()) {
    findings.add(
        FindingKind::kContradictory, config.dotted("sliding_window"), std::to_string(window),
        "is longer than the longest position, " + std::to_string(model.max_positions->count()));
  }
  const detail::Json* types = config.find("layer_types");
  if (types != nullptr && types->array() != nullptr &&
      types->array()->size() != model.layers.size()) {
    findings.add(FindingKind::kContradictory, config.dotted("layer_types"), types->shortened(),
                 "the model has " + std::to_string(model.layers.size()) + " layers");
  }
  if (config.find("quantization_config") == nullptr &&
      model.parameters.basis.find("is hf_quant_config.json missing") != std::string::npos) {
    findings.add(FindingKind::kContradictory, "quantization_config", {},
                 "absent, though the model's name speaks of a quantised checkpoint: is "
                 "hf_quant_config.json missing beside the config?");
  }
}

/// The model of a config, with everything that is the matter; nothing when it cannot be read.
[[nodiscard]] std::optional<ModelConfig> look_at_config(std::string_view json,
                                                        const std::string& file,
                                                        std::string_view quant,
                                                        Findings& findings) {
  const auto root = detail::parse_json(json, file);
  if (!root) {
    findings.add(root.error());
    return std::nullopt;
  }
  std::optional<detail::Json> beside;
  if (!quant.empty()) {
    auto parsed = detail::parse_json(quant, std::string{kQuantName});
    if (!parsed) {
      findings.add(parsed.error());
      return std::nullopt;
    }
    if (parsed->object() == nullptr) {
      findings.add(Error{ErrorCode::kInvalidArgument,
                         "must be a JSON object",
                         std::string{kQuantName},
                         {},
                         parsed->shortened()});
      return std::nullopt;
    }
    beside = *std::move(parsed);
  }
  try {
    std::set<std::string, std::less<>> asked;
    std::optional<detail::JsonReader> reader;
    if (beside.has_value()) {
      reader.emplace(*beside, std::string{}, std::string{kQuantName});
    }
    ModelConfig model =
        detail::assemble_model(*root, file, reader.has_value() ? &*reader : nullptr, &asked);
    const detail::JsonReader config = detail::open_config(*root, file);
    look_at_keys(config, asked, findings);
    look_for_contradictions(config, model, findings);
    look_at_facts(model, findings);
    look_at_defaults(config, model, findings);
    return model;
  } catch (const detail::Refused& refused) {
    findings.add(refused.error);
  }
  return std::nullopt;
}

/// Layers that the files have and the config does not, and the other way round.
void look_at_layers(const StoredWeights& weights, const ModelConfig& model,
                    const std::string& directory, Findings& findings) {
  std::set<std::int64_t> stored;
  std::set<std::int64_t> next_token;
  for (const WeightPart& part : weights.parts) {
    if (part.place == WeightPlace::kLayer) {
      stored.insert(part.layer);
    } else if (part.place == WeightPlace::kNextToken) {
      next_token.insert(part.layer);
    }
  }
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  if (static_cast<std::int64_t>(stored.size()) < layers && !model.drafter.has_value()) {
    std::int64_t missing = 0;
    while (stored.contains(missing)) {
      ++missing;
    }
    findings.add(FindingKind::kContradictory, "num_hidden_layers", std::to_string(layers),
                 directory + " has tensors of " + std::to_string(stored.size()) +
                     " layers; the first without any is layer " + std::to_string(missing));
  }
  const auto behind = static_cast<std::int64_t>(next_token.size());
  if (behind > model.mtp_layers.count()) {
    findings.add(FindingKind::kContradictory, "num_nextn_predict_layers",
                 std::to_string(model.mtp_layers.count()),
                 directory + " has tensors of " + std::to_string(behind) +
                     " layers behind the last one of the config");
  }
}

void look_at_files(const fs::path& directory, const ModelConfig& model, Findings& findings) {
  const auto files = detail::read_tensors(directory);
  if (!files) {
    findings.add(files.error());
    return;
  }
  if (files->files == 0) {
    findings.add(FindingKind::kDefaulted, {}, {},
                 "no safetensors files beside the config: the weights are estimated");
    return;
  }
  const std::optional<bool> tied = detail::read_tied((directory / kConfigName).string());
  const StoredWeights weights = sort_weights(files->tensors, model, tied, files->files);
  for (const std::string& name : weights.unknown_names) {
    findings.add(FindingKind::kNotUnderstood, name, {},
                 "no rule knows how ranks divide this tensor: it counts whole on each of them");
  }
  if (files->index_total.has_value() && *files->index_total != weights.stored.count()) {
    findings.add(FindingKind::kContradictory, "metadata.total_size",
                 std::to_string(*files->index_total),
                 "the index's total differs from the files' " +
                     std::to_string(weights.stored.count()) + " bytes");
  }
  if (weights.tied_embeddings && weights.unused.count() > 0) {
    findings.add(FindingKind::kContradictory, "tie_word_embeddings", "true",
                 std::to_string(weights.unused.count()) +
                     " bytes of the files are loaded by no engine, an output head beside the tied "
                     "table among them");
  }
  look_at_layers(weights, model, directory.string(), findings);
  const std::int64_t loaded = weights.stored.count() - weights.unused.count();
  const std::int64_t estimate = weight_shares(model.parameters, {}).per_rank.count();
  const std::int64_t apart = std::max(loaded, estimate) - std::min(loaded, estimate);
  if (apart > estimate / 100 * kEstimatePercent && !model.drafter.has_value()) {
    findings.add(FindingKind::kContradictory, {}, std::to_string(loaded) + " bytes",
                 "the config describes a model of about " + std::to_string(estimate) +
                     " bytes, the files hold another amount");
  }
}

}  // namespace

std::string_view to_string(FindingKind kind) noexcept {
  switch (kind) {
    case FindingKind::kNotUnderstood: return "not_understood";
    case FindingKind::kContradictory: return "contradictory";
    case FindingKind::kDefaulted: return "defaulted";
  }
  return "not_understood";
}

std::vector<Finding> lint_config(std::string_view json, const std::string& file,
                                 std::string_view hf_quant_config) {
  Findings findings{file};
  (void)look_at_config(json, file, hf_quant_config, findings);
  return std::move(findings).take();
}

Result<std::vector<Finding>> lint_checkpoint(const std::string& path) {
  try {
    std::error_code failed;
    fs::path file{path};
    if (fs::is_directory(file, failed)) {
      file /= kConfigName;
    }
    const auto text = detail::read_text_file(file.string());
    if (!text) {
      return text.error();
    }
    std::string quant;
    const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path{"."};
    if (fs::is_regular_file(directory / kQuantName, failed)) {
      auto beside = detail::read_text_file((directory / kQuantName).string());
      if (!beside) {
        return std::move(beside).error();
      }
      quant = *std::move(beside);
    }
    Findings findings{file.string()};
    const auto model = look_at_config(*text, file.string(), quant, findings);
    if (model.has_value() && file.filename() == kConfigName) {
      look_at_files(directory, *model, findings);
    }
    return std::move(findings).take();
  } catch (const std::exception& e) {
    return Error{ErrorCode::kIo, std::string{"cannot be read: "} + e.what(), path, {}, {}};
  }
}

bool is_known_model_type(std::string_view type) noexcept {
  return detail::is_known_model_type(type);
}

}  // namespace kvpool::io
