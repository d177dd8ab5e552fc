// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/core/checked.hpp>
#include <kvpool/plan/memory_budget.hpp>

#include "catalogue/catalogue.hpp"
#include "commands/commands.hpp"
#include "exit_codes.hpp"
#include "output/json_writer.hpp"
#include "output/numbers.hpp"
#include "output/report.hpp"
#include "output/terminal.hpp"
#include "spelling.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace kvpool::cli {
namespace {

/// An entry with its model.
struct Known {
  const CatalogueEntry* entry;
  ModelConfig model;
};

[[nodiscard]] std::vector<Known> asked_models(const Options& options) {
  std::vector<Known> models;
  for (const CatalogueEntry& entry : catalogue()) {
    if (contains_loosely(entry.name, options.input)) {
      models.push_back({&entry, value_or_fail(model_of(entry))});
    }
  }
  return models;
}

[[nodiscard]] std::string kind_text(const ModelConfig& model) {
  if (!model.drafter.has_value()) {
    return "target";
  }
  return model.drafter->kind.has_value() ? std::string{to_string(*model.drafter->kind)} : "drafter";
}

[[nodiscard]] std::int64_t parameters(const ModelConfig& model) {
  return (CheckedInt{model.parameters.plain.count()} + model.parameters.quantized.count())
      .saturated();
}

/// Estimated bytes of all weights.
[[nodiscard]] Bytes weights(const ModelConfig& model) {
  return weight_shares(model.parameters, {}).per_rank;
}

[[nodiscard]] std::string document(const std::vector<Known>& models) {
  JsonWriter json;
  json.begin_object().text("schema", "kvpool.models/1").begin_array("models");
  for (const auto& [entry, model] : models) {
    json.begin_object()
        .text("name", entry->name)
        .text("kind", kind_text(model))
        .text("model_type", model.model_type)
        .number("parameters", parameters(model))
        .number("estimated_weight_bytes", weights(model).count())
        .text("layers", describe_layers(model))
        .number("max_model_len", model.max_positions.value_or(Tokens{}).count())
        .text("checkpoint_kv_dtype",
              model.checkpoint_kv_dtype.has_value() ? to_string(*model.checkpoint_kv_dtype) : "")
        .text("source", entry->source)
        .end_object();
  }
  json.end_array().end_object();
  return json.document();
}

}  // namespace

ExitCode run_models(const Options& options) {
  const std::vector<Known> models = asked_models(options);
  if (options.flag(OptionId::kJson)) {
    print(document(models));
    return ExitCode::kFits;
  }
  Report report{use_colour()};
  if (models.empty()) {
    report.line("No name contains '" + options.input + "'; a path to a config.json works, too.");
  } else {
    report.line(counted(static_cast<std::int64_t>(models.size()), "model") +
                    ", figures only: weights are estimated. A checkpoint directory has them to the "
                    "byte.",
                0, 0);
    report.blank();
    Table table{{{"name"},
                 {"kind"},
                 {"parameters", Align::kRight},
                 {"weights", Align::kRight},
                 {"longest", Align::kRight},
                 {"layers"}}};
    constexpr double kBillion = 1e9;
    for (const auto& [entry, model] : models) {
      table.row({std::string{entry->name}, kind_text(model),
                 fmt::format("{:.2f} B", static_cast<double>(parameters(model)) / kBillion),
                 short_size(weights(model)),
                 model.max_positions.has_value() ? count_text(model.max_positions->count()) : "-",
                 describe_layers(model)});
    }
    report.table(table, 0);
  }
  print(report.text());
  return ExitCode::kFits;
}

}  // namespace kvpool::cli
