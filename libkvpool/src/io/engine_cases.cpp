// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/engine_cases.hpp>

#include "engine_settings.hpp"
#include "io/nearest_word.hpp"
#include "json_reader.hpp"
#include "json_value.hpp"
#include "model_config_overrides.hpp"
#include "text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

namespace kvpool::io {
namespace {

using detail::JsonReader;
using detail::Limits;
using detail::Refused;

constexpr std::array<std::string_view, 13> kCaseKeys{
    "id",      "confidence", "source", "engine", "engine_version", "model", "model_overrides",
    "drafter", "deployment", "given",  "expect", "tolerance",      "note"};
constexpr std::array<std::string_view, 5> kDrafterKeys{"kind", "config", "num_draft_tokens",
                                                       "num_layers", "backend"};
constexpr std::array<std::string_view, 6> kGivenKeys{
    "kv_budget_bytes", "num_blocks", "kv_tokens", "num_slots", "cells", "max_model_len"};
constexpr Limits kGiven{0, std::int64_t{1} << 60};
constexpr Limits kDraftCount{0, 65'536};

/// Beside the library's own spellings those that engines' users type.
struct KindAlias {
  std::string_view name;
  DrafterKind kind;
};
constexpr std::array kKindAliases{KindAlias{"eagle", DrafterKind::kEagle3},
                                  KindAlias{"eagle2", DrafterKind::kEagle3},
                                  KindAlias{"p_eagle", DrafterKind::kPeagle},
                                  KindAlias{"nextn", DrafterKind::kMtp},
                                  KindAlias{"draft_model", DrafterKind::kDraftTarget},
                                  KindAlias{"draft", DrafterKind::kDraftTarget},
                                  KindAlias{"suffix", DrafterKind::kSuffixAutomaton}};

bool is_block_drafter(DrafterKind kind) noexcept {
  return kind == DrafterKind::kDflash || kind == DrafterKind::kDomino ||
         kind == DrafterKind::kPeagle;
}

/// Model configs below one folder; a file that many cases name is read once.
class Configs {
 public:
  explicit Configs(std::string folder) : folder_{std::move(folder)} {}

  [[nodiscard]] ModelConfig read(const JsonReader& object, std::string_view key,
                                 const detail::Json* overrides) {
    const auto name = object.text(key);
    if (!name.has_value()) {
      object.invalid(object.dotted(key), {}, "missing: the name of a config below the folder");
    }
    const std::filesystem::path relative{*name};
    const bool inside =
        !name->empty() && relative.is_relative() &&
        std::ranges::none_of(relative, [](const auto& part) { return part == ".."; });
    if (!inside) {
      object.invalid(object.dotted(key), *name, "must be a file below the folder of configs");
    }
    const std::string path = (std::filesystem::path{folder_} / relative).string();
    if (overrides != nullptr) {
      return checked(object, key, *name, detail::read_model_config(path, overrides));
    }
    auto at = known_.find(path);
    if (at == known_.end()) {
      at = known_.emplace(path, detail::read_model_config(path, nullptr)).first;
    }
    return checked(object, key, *name, at->second);
  }

 private:
  /// A config's own error, told at the place that names it.
  static ModelConfig checked(const JsonReader& object, std::string_view key,
                             const std::string& name, const Result<ModelConfig>& model) {
    if (!model) {
      Error error = model.error();
      std::string place = object.dotted(key) + " " + name;
      if (!error.key.empty()) {
        place += ": " + error.key;
      }
      error.key = std::move(place);
      error.file = object.file();
      throw Refused{std::move(error)};
    }
    return *model;
  }

  std::string folder_;
  std::map<std::string, Result<ModelConfig>> known_;
};

std::optional<DrafterKind> read_kind(std::string text) {
  std::ranges::replace(text, '-', '_');
  const auto* alias = std::ranges::find(kKindAliases, std::string_view{text}, &KindAlias::name);
  return alias != kKindAliases.end() ? std::optional{alias->kind} : parse_drafter_kind(text);
}

EngineDrafter read_drafter(const JsonReader& object, Engine engine, Configs& configs) {
  detail::refuse_unknown_keys(object, kDrafterKeys);
  EngineDrafter drafter;
  const auto kind = object.text("kind");
  if (!kind.has_value()) {
    object.invalid(object.dotted("kind"), {}, "missing: mtp, eagle3, dflash, ...");
  }
  const auto parsed = read_kind(*kind);
  if (!parsed.has_value()) {
    object.unsupported(object.dotted("kind"), *kind,
                       "not understood; known are mtp, eagle3, dflash, dspark, domino, peagle, "
                       "draft_target, pard, ngram and suffix_automaton");
  }
  drafter.kind = *parsed;
  if (object.has("config")) {
    drafter.model = configs.read(object, "config", nullptr);
  }
  if (const auto tokens = object.integer({"num_draft_tokens"}, kDraftCount)) {
    drafter.num_draft_tokens = tokens->value;
  }
  if (const auto layers = object.integer({"num_layers"}, kDraftCount)) {
    drafter.num_layers = layers->value;
  }
  // The cases are about pools: where TensorRT-LLM has a choice, the back-end that reads one.
  const bool pooled = engine == Engine::kTrtllm && is_block_drafter(drafter.kind);
  drafter.backend = object.text("backend").value_or(pooled ? "TRTLLM" : "");
  return drafter;
}

EngineGiven read_given(const JsonReader& object) {
  detail::refuse_unknown_keys(object, kGivenKeys);
  std::optional<EngineGiven> given;
  for (const std::string_view key : kGivenKeys) {
    if (const auto value = object.integer({key}, kGiven)) {
      if (given.has_value()) {
        object.invalid(object.dotted(key), std::to_string(value->value),
                       "exactly one figure is given, and " + std::string{to_string(given->kind)} +
                           " is one already");
      }
      given = EngineGiven{*parse_given_kind(key), value->value};
    }
  }
  if (!given.has_value()) {
    object.invalid("given", {}, fmt::format("missing: one of {}", fmt::join(kGivenKeys, ", ")));
  }
  return *given;
}

std::vector<ExpectedFigure> read_expected(const JsonReader& object) {
  std::vector<ExpectedFigure> expected;
  std::vector<std::string_view> names;
  for (const FigureKey key : all_figures()) {
    names.push_back(to_string(key));
  }
  for (const std::string_view name : object.keys()) {
    const auto key = parse_figure_key(name);
    const detail::Json* value = object.find(name);
    if (!key.has_value()) {
      object.invalid(object.dotted(name), value == nullptr ? "null" : value->shortened(),
                     "unknown figure" + detail::advice(name, names));
    }
    if (value == nullptr) {
      continue;
    }
    std::string printed;
    if (const auto* whole = value->integer()) {
      printed = std::to_string(*whole);
    } else if (const auto* text = value->text()) {
      printed = *text;
    }
    if (!is_printed_number(printed)) {
      object.invalid(object.dotted(name), value->shortened(),
                     "must be a whole number, or text with all decimals that were printed");
    }
    expected.push_back({*key, std::move(printed)});
  }
  return expected;
}

FigureRounding read_rounding(const JsonReader& object) {
  const auto rounding = object.text("rounding");
  if (rounding.has_value() && *rounding != "floor" && *rounding != "nearest") {
    object.invalid("rounding", *rounding, "must be floor or nearest");
  }
  return rounding == "floor" ? FigureRounding::kFloor : FigureRounding::kNearest;
}

JsonReader need_child(const JsonReader& object, std::string_view key) {
  const auto child = object.child(key);
  if (!child.has_value()) {
    object.invalid(std::string{key}, {}, "missing: an object is expected");
  }
  return *child;
}

EngineCase read_case(const JsonReader& object, Configs& configs) {
  std::vector<std::string_view> known{kCaseKeys.begin(), kCaseKeys.end()};
  known.emplace_back("rounding");
  detail::refuse_unknown_keys(object, known);
  EngineCase out;
  out.id = object.text("id").value_or("");
  out.engine_version = object.text("engine_version").value_or("");
  const std::string name = object.text("engine").value_or("");
  const auto engine = parse_engine(name);
  if (!engine.has_value()) {
    std::vector<std::string_view> names;
    for (const Engine each : all_engines()) {
      names.push_back(to_string(each));
    }
    object.invalid("engine", name, "no engine whose rules are known" + detail::advice(name, names));
  }
  out.request.engine = *engine;
  const detail::Json* overrides = object.find("model_overrides");
  if (overrides != nullptr && overrides->object() == nullptr) {
    object.invalid("model_overrides", overrides->shortened(), "must be an object");
  }
  const bool overridden = overrides != nullptr && !overrides->object()->empty();
  out.request.target = configs.read(object, "model", overridden ? overrides : nullptr);
  if (const auto drafter = object.child("drafter")) {
    out.request.drafter = read_drafter(*drafter, *engine, configs);
  }
  detail::read_settings(need_child(object, "deployment"), *engine, out.request.settings);
  out.request.given = read_given(need_child(object, "given"));
  out.expected = read_expected(need_child(object, "expect"));
  if (const auto tolerance = object.child("tolerance"); tolerance && !tolerance->keys().empty()) {
    object.unsupported("tolerance", object.find("tolerance")->shortened(),
                       "figures are compared exactly; leave it empty");
  }
  out.rounding = read_rounding(object);
  return out;
}

EngineCaseLine read_line(std::string_view text, std::int64_t line, const std::string& file,
                         Configs& configs) {
  const std::string place = fmt::format("{}:{}", file, line);
  std::string id;
  const auto failed = [&](Error error) {
    return EngineCaseLine{.line = line, .id = id, .content = std::move(error)};
  };
  try {
    Result<detail::Json> json = detail::parse_json(text, place);
    if (!json) {
      return failed(std::move(json).error());
    }
    const JsonReader object{*json, {}, place};
    if (json->object() == nullptr) {
      object.invalid({}, json->shortened(), "a case is a JSON object on a line of its own");
    }
    if (const detail::Json* name = json->find("id"); name != nullptr && name->text() != nullptr) {
      id = detail::shorten(*name->text());
    }
    EngineCase content = read_case(object, configs);
    return EngineCaseLine{.line = line, .id = id, .content = std::move(content)};
  } catch (Refused& refused) {
    return failed(std::move(refused.error));
  } catch (const std::exception& e) {
    return failed(Error{
        ErrorCode::kInternal, std::string{"reading a case failed: "} + e.what(), place, {}, {}});
  }
}

}  // namespace

Result<std::vector<EngineCaseLine>> read_engine_cases(const std::string& path,
                                                      const std::string& configs) {
  Result<std::string> text = detail::read_text_file(path);
  if (!text) {
    return std::move(text).error();
  }
  return parse_engine_cases(*text, path, configs);
}

std::vector<EngineCaseLine> parse_engine_cases(std::string_view text, const std::string& file,
                                               const std::string& configs) {
  Configs models{configs};
  std::vector<EngineCaseLine> lines;
  std::int64_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      lines.push_back(read_line(line, number, file, models));
    }
  }
  return lines;
}

}  // namespace kvpool::io
