// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/model_config_io.hpp>

#include "drafter_traits.hpp"
#include "json_reader.hpp"
#include "json_value.hpp"
#include "layer_kinds.hpp"
#include "model_assembly.hpp"
#include "model_fields.hpp"
#include "model_layers.hpp"
#include "quantization.hpp"
#include "text_file.hpp"
#include "weight_estimate.hpp"

#include <exception>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace kvpool::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kQuantName = "hf_quant_config.json";

// The file's stem, or the directory's name when the file is called config.json.
std::string display_name(const std::string& file) {
  const fs::path path{file};
  if (path.filename() == kConfigName && path.has_parent_path()) {
    const fs::path parent = path.parent_path().filename();
    if (!parent.empty() && parent != "." && parent != "..") {
      return parent.string();
    }
  }
  return path.stem().string();
}

}  // namespace

namespace detail {

ModelConfig assemble_model(const Json& root, const std::string& file, const JsonReader* beside,
                           std::set<std::string, std::less<>>* asked_keys) {
  JsonReader config = open_config(root, file);
  if (asked_keys != nullptr) {
    config.record_into(*asked_keys);
  }
  refuse_unknown_caches(config);
  FactLog facts;
  const ModelFields fields = read_fields(config, facts);
  const LayerKinds kinds = read_layer_kinds(config, fields);

  ModelConfig model;
  model.name = display_name(file);
  model.model_type = fields.model_type;
  model.architecture = fields.architectures.empty() ? std::string{} : fields.architectures.front();
  model.layers = build_layers(config, fields, kinds, facts);
  model.drafter = read_drafter(config, fields, facts);
  MtpLayers mtp = build_mtp_layers(config, fields, model.layers, facts);
  model.mtp_layer = std::move(mtp.caches);
  model.mtp_layers = mtp.count;
  model.native_dtype = fields.native_dtype;
  model.checkpoint_kv_dtype = read_checkpoint_kv_dtype(config, beside, facts);
  model.max_positions = fields.max_positions;
  model.query_heads = Heads{fields.query_heads};
  model.hidden_size = fields.hidden_size;
  model.parameters =
      estimate_parameters(config, fields, kinds, read_weight_format(config, beside), model);
  model.facts = std::move(facts).take();
  return model;
}

}  // namespace detail

namespace {

Result<ModelConfig> parse(std::string_view json, const std::string& file,
                          std::string_view quant_json, const std::string& quant_file) {
  try {
    Result<detail::Json> root = detail::parse_json(json, file);
    if (!root.has_value()) {
      return std::move(root).error();
    }
    if (quant_json.empty()) {
      return detail::assemble_model(*root, file, nullptr, nullptr);
    }
    Result<detail::Json> quant = detail::parse_json(quant_json, quant_file);
    if (!quant.has_value()) {
      return std::move(quant).error();
    }
    const detail::JsonReader beside{*quant, {}, quant_file};
    if (quant->object() == nullptr) {
      beside.invalid({}, quant->shortened(), "must be a JSON object");
    }
    return detail::assemble_model(*root, file, &beside, nullptr);
  } catch (detail::Refused& refused) {
    return std::move(refused.error);
  } catch (const std::exception& e) {
    return Error{
        ErrorCode::kInternal, std::string{"reading the config failed: "} + e.what(), file, {}, {}};
  }
}

}  // namespace

Result<ModelConfig> read_model_config(const std::string& path) {
  try {
    std::error_code error;
    fs::path file{path};
    if (fs::is_directory(file, error)) {
      file /= kConfigName;
    }
    Result<std::string> text = detail::read_text_file(file.string());
    if (!text.has_value()) {
      return std::move(text).error();
    }
    const fs::path quant_file = file.parent_path() / kQuantName;
    std::string quant;
    if (fs::is_regular_file(quant_file, error)) {
      Result<std::string> beside = detail::read_text_file(quant_file.string());
      if (!beside.has_value()) {
        return std::move(beside).error();
      }
      quant = std::move(*beside);
    }
    return parse(*text, file.string(), quant, quant_file.string());
  } catch (const std::exception& e) {
    return Error{ErrorCode::kIo, std::string{"cannot be read: "} + e.what(), path, {}, {}};
  }
}

Result<ModelConfig> parse_model_config(std::string_view json, const std::string& file,
                                       std::string_view hf_quant_config) {
  return parse(json, file, hf_quant_config, std::string{kQuantName});
}

}  // namespace kvpool::io
