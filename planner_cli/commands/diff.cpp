// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/plan_difference.hpp>
#include <kvpool/io/plan_document.hpp>
#include <kvpool/plan/planner.hpp>

#include "commands/commands.hpp"
#include "deployment_file.hpp"
#include "output/json_writer.hpp"
#include "output/numbers.hpp"
#include "output/report.hpp"
#include "output/terminal.hpp"
#include "request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::cli {
namespace {

/// The plan of a plan document, or of a deployment file that is planned now.
[[nodiscard]] Plan read_side(const std::string& path) {
  if (!path.ends_with(".toml")) {
    return value_or_fail(io::read_plan(path));
  }
  Options options{.command = Command::kPlan, .input = {}, .values = {}};
  add_deployment_file(path, options);
  const Deployment deployment = read_deployment(options);
  return value_or_fail(make_plan(deployment.request, deployment.registry));
}

/// A JSON value for people: texts without quotes, whole numbers with separators.
[[nodiscard]] std::string shown(const std::optional<std::string>& value, bool is_number) {
  if (!value.has_value()) {
    return "-";
  }
  if (is_number) {
    return count_text(std::stoll(*value));
  }
  const bool quoted = value->size() >= 2 && value->front() == '"' && value->back() == '"';
  return quoted ? value->substr(1, value->size() - 2) : *value;
}

[[nodiscard]] std::string change_text(const io::PlanDifference& difference) {
  if (!difference.change.has_value()) {
    return {};
  }
  return (*difference.change > 0 ? "+" : "") + count_text(*difference.change);
}

void report_differences(const std::vector<io::PlanDifference>& differences, const Options& options,
                        Report& report) {
  if (differences.empty()) {
    report.line("EQUAL: the same plan", 0, 7, Emphasis::kGood);
    return;
  }
  report.line("DIFFERENT: " + counted(static_cast<std::int64_t>(differences.size()), "value"), 0,
              11, Emphasis::kBad);
  report.line("A " + options.input, 2, 4);
  report.line("B " + options.second_input, 2, 4);
  for (auto from = differences.begin(); from != differences.end();) {
    const auto to = std::find_if(from, differences.end(), [&](const io::PlanDifference& other) {
      return other.area != from->area;
    });
    std::string title{to_string(from->area)};
    title.front() = static_cast<char>(title.front() - 'a' + 'A');
    report.heading(title);
    Table table{{{""}, {"A", Align::kRight}, {"B", Align::kRight}, {"B - A", Align::kRight}}};
    std::vector<const io::PlanDifference*> texts;
    for (; from != to; ++from) {
      constexpr std::size_t kLongestCell = 24;
      const bool is_number = from->change.has_value();
      const std::string a = shown(from->before, is_number);
      const std::string b = shown(from->after, is_number);
      if (a.size() > kLongestCell || b.size() > kLongestCell) {
        texts.push_back(&*from);
      } else {
        table.row({from->key, a, b, change_text(*from)});
      }
    }
    if (!table.empty()) {
      report.table(table);
    }
    for (const io::PlanDifference* text : texts) {
      report.line(text->key, 2, 4);
      report.line("A: " + shown(text->before, false), 4, 7);
      report.line("B: " + shown(text->after, false), 4, 7);
    }
  }
}

void write_value(const char* key, const std::optional<std::string>& value, JsonWriter& json) {
  json.raw(key, value.value_or("null"));
}

}  // namespace

ExitCode run_diff(const Options& options) {
  const Plan first = read_side(options.input);
  const Plan second = read_side(options.second_input);
  const std::vector<io::PlanDifference> differences = io::plan_differences(first, second);
  if (options.flag(OptionId::kJson)) {
    JsonWriter json;
    json.begin_object()
        .text("schema", "kvpool.diff/1")
        .boolean("equal", differences.empty())
        .begin_array("differences");
    for (const io::PlanDifference& difference : differences) {
      json.begin_object().text("area", to_string(difference.area)).text("key", difference.key);
      write_value("a", difference.before, json);
      write_value("b", difference.after, json);
      if (difference.change.has_value()) {
        json.number("change", *difference.change);
      }
      json.end_object();
    }
    json.end_array().end_object();
    print(json.document());
  } else {
    Report report{use_colour()};
    report_differences(differences, options, report);
    print(report.text());
  }
  return differences.empty() ? ExitCode::kFits : ExitCode::kDoesNotFit;
}

}  // namespace kvpool::cli
