// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/solve_report.hpp"

#include "commands/describe.hpp"
#include "output/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace kvpool::cli {
namespace {

constexpr std::int64_t kWhole = 1'000'000;
/// More ways out than these are of no use on a screen; the document has all.
constexpr std::size_t kMostReliefs = 6;

[[nodiscard]] std::string_view title_of(Question question) noexcept {
  switch (question) {
    case Question::kMaxModelLen: return "Longest sequence";
    case Question::kMaxNumSeqs: return "Most sequences";
    case Question::kGpus: return "Fewest GPUs";
    case Question::kGpuMemoryUtilization: return "Smallest share of the GPU";
    case Question::kKvCacheDtype: return "Cache format needed";
    case Question::kPageSize: return "Page with the least waste";
    case Question::kDrafter: return "Largest drafter";
    case Question::kNumDraftTokens: return "Most draft tokens";
  }
  return "Answer";
}

[[nodiscard]] std::string share_text(std::int64_t ppm) {
  std::string text = fmt::format("{}.{:06}", ppm / kWhole, ppm % kWhole);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text + "0" : text;
}

[[nodiscard]] std::string figure_text(const Figure& figure) {
  // A share of the whole reads as per cent.
  if (figure.unit == "millionths" && figure.name == "shareable") {
    return fmt::format("{}.{} %", figure.value / 10'000, figure.value / 1'000 % 10);
  }
  return value_text(figure.value, figure.unit);
}

void report_binding(const Answer& answer, Report& report) {
  const BindingConstraint& binding = answer.binding;
  if (binding.id.empty()) {
    return;
  }
  std::string text = words_of(binding.id) + ": " + binding.what;
  if (binding.missing.count() > 0) {
    text += fmt::format("; {} more for the next step", bytes_text(binding.missing));
  }
  if (!binding.pool.empty()) {
    text += fmt::format("; pool {} runs out first", binding.pool);
    if (answer.request.parallelism.pipeline > 1) {
      text += fmt::format(" (stage {})", binding.stage);
    }
  }
  report.line("limit    " + text, 2, 11, answer.found ? Emphasis::kPlain : Emphasis::kNotice);
}

void report_reliefs(const Answer& answer, Report& report) {
  const std::size_t shown = std::min(answer.reliefs.size(), kMostReliefs);
  for (std::size_t i = 0; i < shown; ++i) {
    const Relief& relief = answer.reliefs[i];
    const std::string outcome =
        relief.chosen.empty() ? value_text(relief.value, answer.unit) : relief.chosen;
    const std::string text = fmt::format("{}: {}{}", relief.change, outcome,
                                         relief.gpus > 1 && answer.question != Question::kGpus
                                             ? " (" + counted(relief.gpus, "GPU") + ")"
                                             : "");
    report.line(i == 0 ? "next     " + text : text, i == 0 ? 2 : 11, 13);
  }
}

void report_candidates(const Answer& answer, Report& report) {
  std::vector<std::string_view> names;
  for (const Candidate& candidate : answer.candidates) {
    for (const Figure& figure : candidate.figures) {
      if (std::ranges::find(names, figure.name) == names.end()) {
        names.push_back(figure.name);
      }
    }
  }
  if (answer.candidates.empty()) {
    return;
  }
  std::vector<Column> columns{{"value"}, {"fits"}};
  for (const std::string_view name : names) {
    columns.push_back({words_of(name), Align::kRight});
  }
  columns.push_back({"remark"});
  Table table{std::move(columns)};
  for (const Candidate& candidate : answer.candidates) {
    std::vector<std::string> cells{candidate.name, candidate.fits ? "yes" : "no"};
    for (const std::string_view name : names) {
      const auto found = std::ranges::find(candidate.figures, name, &Figure::name);
      cells.push_back(found == candidate.figures.end() ? "-" : figure_text(*found));
    }
    cells.push_back(candidate.note);
    table.row(std::move(cells));
  }
  report.blank();
  report.table(table, 4);
}

void write_figures(const std::vector<Figure>& figures, JsonWriter& json) {
  json.begin_array("figures");
  for (const Figure& figure : figures) {
    json.begin_object()
        .text("name", figure.name)
        .number("value", figure.value)
        .text("unit", figure.unit)
        .end_object();
  }
  json.end_array();
}

}  // namespace

std::string value_text(std::int64_t value, const std::string& unit) {
  if (unit == "millionths") {
    return share_text(value);
  }
  if (unit == "bytes") {
    return bytes_text(Bytes{value});
  }
  if (unit == "gpus") {
    return counted(value, "GPU");
  }
  if (unit.empty()) {
    return count_text(value);
  }
  return counted(value, unit.substr(0, unit.size() - 1));
}

void report_answer(const Answer& answer, Report& report) {
  report.blank();
  const std::string title{title_of(answer.question)};
  if (answer.found) {
    const std::string value =
        answer.unit.empty() ? answer.options
                            : value_text(answer.value, answer.unit) + " (" + answer.options + ")";
    report.line(title + ": " + value, 0, 4, Emphasis::kGood);
  } else {
    report.line(title + ": none fits", 0, 4, Emphasis::kBad);
  }
  for (const Figure& figure : answer.figures) {
    report.line(words_of(figure.name) + ": " + figure_text(figure), 11, 13);
  }
  for (const std::string& note : answer.notes) {
    report.line("note     " + note, 2, 11);
  }
  report_binding(answer, report);
  report_reliefs(answer, report);
  report_candidates(answer, report);
}

void write_answer(const Answer& answer, JsonWriter& json) {
  json.begin_object()
      .text("question", to_string(answer.question))
      .boolean("found", answer.found)
      .number("value", answer.value)
      .text("unit", answer.unit)
      .text("options", answer.options);
  write_figures(answer.figures, json);
  json.begin_object("binding")
      .text("id", answer.binding.id)
      .text("what", answer.binding.what)
      .number("missing_bytes", answer.binding.missing.count())
      .text("pool", answer.binding.pool)
      .number("stage", answer.binding.stage)
      .end_object();
  json.begin_array("reliefs");
  for (const Relief& relief : answer.reliefs) {
    json.begin_object()
        .text("change", relief.change)
        .number("value", relief.value)
        .text("chosen", relief.chosen)
        .number("gpus", relief.gpus)
        .end_object();
  }
  json.end_array().begin_array("candidates");
  for (const Candidate& candidate : answer.candidates) {
    json.begin_object()
        .text("name", candidate.name)
        .boolean("fits", candidate.fits)
        .text("note", candidate.note);
    write_figures(candidate.figures, json);
    json.end_object();
  }
  json.end_array().texts("notes", answer.notes).end_object();
}

}  // namespace kvpool::cli
