// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/planner.hpp>
#include <kvpool/solve/advice.hpp>

#include "commands/commands.hpp"
#include "commands/describe.hpp"
#include "commands/explain_report.hpp"
#include "commands/plan_report.hpp"
#include "length_input.hpp"
#include "output/terminal.hpp"
#include "request.hpp"

#include <fmt/format.h>

#include <optional>

namespace kvpool::cli {
namespace {

void explain_facts(const ModelConfig& model, std::string_view role, Report& report) {
  report.line(fmt::format("{} {}", role, model.name), 2, 4);
  Table table{{{"config key"}, {"value"}, {"figure"}, {"rule"}}};
  for (const ConfigFact& fact : model.facts) {
    table.row({fact.key, fact.value, words_of(fact.figure), fact.rule});
  }
  if (table.empty()) {
    report.line("(the config names no key that a figure rests on)", 4, 4);
  } else {
    report.table(table, 4);
  }
  report.line("layers: " + describe_layers(model), 4, 6);
  if (const std::string note = unknown_type_note(model); !note.empty()) {
    report.line("note: " + note, 4, 6, Emphasis::kNotice);
  }
}

}  // namespace

void explain_config(const Plan& plan, Report& report) {
  report.line("1. What the config says", 0, 0, Emphasis::kHeading);
  explain_facts(plan.request.target, "target", report);
  if (plan.request.drafter.has_value() && plan.request.drafter->model.has_value()) {
    report.blank();
    explain_facts(*plan.request.drafter->model, "drafter", report);
  }
}

ExitCode run_explain(const Options& options) {
  const Deployment deployment = read_deployment(options);
  const Plan plan = value_or_fail(make_plan(deployment.request, deployment.registry));
  Report report{use_colour()};
  explain_config(plan, report);
  explain_page_decisions(plan, report);
  if (!plan.ranks.empty()) {
    explain_pages(plan, report);
    explain_sequence(plan, report);
    explain_pool_sizes(plan, report);
  }
  explain_ledger(plan, report);
  report_refusals(plan, report);
  const std::optional<LengthMix> mix = read_lengths(options, plan);
  report_advice(advise(plan, deployment.registry, mix.has_value() ? &*mix : nullptr), report);
  print(report.text());
  return exit_code_of(plan) == ExitCode::kBadInput ? ExitCode::kBadInput : ExitCode::kFits;
}

}  // namespace kvpool::cli
