// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/engine/engine_prediction.hpp>
#include <kvpool/io/engine_cases.hpp>

#include "commands/commands.hpp"
#include "output/json_writer.hpp"
#include "output/numbers.hpp"
#include "output/report.hpp"
#include "output/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::cli {
namespace {

/// What a figure came to.
struct FigureOutcome {
  std::string key;
  /// As it would be printed; empty where it is not predicted.
  std::string predicted;
  std::string printed;
  bool agrees = false;
};

/// What a line of a file of cases came to.
struct CaseOutcome {
  std::string file;
  std::int64_t line = 0;
  std::string id;
  std::vector<FigureOutcome> figures;
  std::optional<Error> error;

  [[nodiscard]] bool holds() const noexcept {
    return !error.has_value() && std::ranges::all_of(figures, &FigureOutcome::agrees);
  }
};

struct Tally {
  std::int64_t ok = 0;
  std::int64_t failed = 0;
  std::int64_t errors = 0;

  [[nodiscard]] ExitCode exit() const noexcept {
    if (errors > 0) {
      return ExitCode::kBadInput;
    }
    return failed > 0 ? ExitCode::kDoesNotFit : ExitCode::kFits;
  }
};

[[nodiscard]] std::vector<FigureOutcome> compare(const EnginePrediction& prediction,
                                                 const io::EngineCase& question) {
  std::vector<FigureOutcome> out;
  for (const ExpectedFigure& expected : question.expected) {
    FigureOutcome& figure = out.emplace_back();
    figure.key = to_string(expected.key);
    figure.printed = expected.printed;
    if (const EngineFigure* predicted = prediction.find(expected.key); predicted != nullptr) {
      figure.predicted = figure_text(*predicted, expected.printed, question.rounding);
      figure.agrees = agrees(*predicted, expected, question.rounding);
    }
  }
  return out;
}

[[nodiscard]] CaseOutcome run_case(const std::string& file, const io::EngineCaseLine& line,
                                   const CapabilityRegistry& registry) {
  CaseOutcome out{.file = file, .line = line.line, .id = line.id, .figures = {}, .error = {}};
  if (!line.content) {
    out.error = line.content.error();
    return out;
  }
  const Result<EnginePrediction> prediction = predict_engine(line.content->request, registry);
  if (!prediction) {
    out.error = prediction.error();
    out.error->file = fmt::format("{}:{}", file, line.line);
    return out;
  }
  out.figures = compare(*prediction, *line.content);
  return out;
}

[[nodiscard]] Tally tally_of(const std::vector<CaseOutcome>& cases) {
  Tally tally;
  for (const CaseOutcome& outcome : cases) {
    (outcome.error.has_value() ? tally.errors : (outcome.holds() ? tally.ok : tally.failed)) += 1;
  }
  return tally;
}

[[nodiscard]] std::string failures_text(const CaseOutcome& outcome) {
  std::string text;
  for (const FigureOutcome& figure : outcome.figures) {
    if (!figure.agrees) {
      text += fmt::format("{}{}: predicted {}, printed {}", text.empty() ? "" : "; ", figure.key,
                          figure.predicted.empty() ? "nothing" : figure.predicted, figure.printed);
    }
  }
  return text;
}

/// One line, whatever its length, so that tools can read it.
[[nodiscard]] std::string case_line(const CaseOutcome& outcome) {
  const std::string name = outcome.id.empty() ? fmt::format("line {}", outcome.line) : outcome.id;
  std::string line;
  if (outcome.error.has_value()) {
    line = fmt::format("ERROR {}: {}", name, to_string(*outcome.error));
  } else if (outcome.holds()) {
    line = fmt::format("ok    {}", name);
  } else {
    line = fmt::format("FAIL  {}: {}", name, failures_text(outcome));
  }
  return printable(line) + "\n";
}

[[nodiscard]] std::string summary_of(const Tally& tally) {
  std::string text =
      fmt::format("{}: {} ok", counted(tally.ok + tally.failed + tally.errors, "case"), tally.ok);
  if (tally.failed > 0) {
    text += fmt::format(", {} FAIL", tally.failed);
  }
  if (tally.errors > 0) {
    text += fmt::format(", {} not understood", tally.errors);
  }
  return text;
}

[[nodiscard]] std::string document_of(const std::vector<CaseOutcome>& cases, const Tally& tally) {
  JsonWriter json;
  json.begin_object()
      .text("schema", "kvpool.check/1")
      .boolean("agrees", tally.exit() == ExitCode::kFits)
      .number("cases_ok", tally.ok)
      .number("cases_failed", tally.failed)
      .number("cases_not_understood", tally.errors);
  json.begin_array("cases");
  for (const CaseOutcome& outcome : cases) {
    json.begin_object()
        .text("file", outcome.file)
        .number("line", outcome.line)
        .text("id", outcome.id)
        .boolean("agrees", outcome.holds());
    json.begin_array("figures");
    for (const FigureOutcome& figure : outcome.figures) {
      json.begin_object()
          .text("key", figure.key)
          .boolean("agrees", figure.agrees)
          .text("predicted", figure.predicted)
          .text("printed", figure.printed)
          .end_object();
    }
    json.end_array();
    if (outcome.error.has_value()) {
      json.error(*outcome.error);
    }
    json.end_object();
  }
  json.end_array().end_object();
  return json.document();
}

}  // namespace

ExitCode run_check(const Options& options) {
  const GivenValue* configs = options.find(OptionId::kConfigs);
  const auto files = options.values.find(OptionId::kCases);
  if (configs == nullptr) {
    throw usage_failure("--configs DIR is missing: the folder of the configs that cases name");
  }
  if (files == options.values.end() || files->second.empty()) {
    throw usage_failure("--cases FILE is missing");
  }
  const CapabilityRegistry registry = CapabilityRegistry::with_known_kernels();
  std::vector<CaseOutcome> cases;
  for (const GivenValue& file : files->second) {
    for (const io::EngineCaseLine& line :
         value_or_fail(io::read_engine_cases(file.text, configs->text))) {
      cases.push_back(run_case(file.text, line, registry));
    }
  }
  if (cases.empty()) {
    throw Failure{ExitCode::kBadInput,
                  Error{ErrorCode::kInvalidArgument, "there are no cases in it",
                        files->second.front().text, "", ""}};
  }
  const Tally tally = tally_of(cases);
  if (options.flag(OptionId::kJson)) {
    print(document_of(cases, tally));
  } else {
    std::string text;
    for (const CaseOutcome& outcome : cases) {
      text += case_line(outcome);
    }
    Report summary{use_colour()};
    summary.blank();
    summary.line(summary_of(tally), 0, 2,
                 tally.exit() == ExitCode::kFits ? Emphasis::kGood : Emphasis::kBad);
    print(text + summary.text());
  }
  return tally.exit();
}

}  // namespace kvpool::cli
