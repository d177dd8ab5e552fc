// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/engines.hpp"

#include <kvpool/plan/planner.hpp>
#include <kvpool/solve/advice.hpp>

#include "commands/engine_questions.hpp"
#include "commands/engine_report.hpp"
#include "commands/plan_report.hpp"
#include "length_input.hpp"
#include "output/terminal.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::cli {
namespace {

/// Beside a document, on standard error.
void print_notes(const Options& options, const Deployment& deployment) {
  for (const std::string& note : request_notes(options, deployment.request)) {
    print_note(note);
  }
}

/// Below a report.
void report_notes(const Options& options, const Deployment& deployment, Report& report) {
  const std::vector<std::string> notes = request_notes(options, deployment.request);
  if (!notes.empty()) {
    report.blank();
  }
  for (const std::string& note : notes) {
    report.line("note: " + note, 0, 6, Emphasis::kNotice);
  }
}

[[nodiscard]] ExitCode compare_engines(const Options& options, const Deployment& deployment) {
  ComparedPlan own{.plan = value_or_fail(make_plan(deployment.request, deployment.registry)),
                   .advice = {}};
  const std::optional<LengthMix> mix = read_lengths(options, own.plan);
  own.advice = advise(own.plan, deployment.registry, mix.has_value() ? &*mix : nullptr);
  std::vector<EngineAnswer> answers;
  for (const Engine engine : all_engines()) {
    answers.push_back(ask_engine(engine, options, deployment));
  }
  if (options.flag(OptionId::kJson)) {
    print(engines_document(&own, answers));
    print_notes(options, deployment);
  } else {
    Report report{use_colour()};
    report_comparison(own, answers, report);
    report_notes(options, deployment, report);
    print(report.text());
  }
  return exit_code_of(own.plan);
}

}  // namespace

bool asks_for_engines(const Options& options) {
  const bool compare = options.flag(OptionId::kCompareEngines);
  const std::optional<Engine> engine = asked_engine(options);
  if (compare && engine.has_value()) {
    throw usage_failure("--engine and --compare-engines exclude each other");
  }
  if (!compare && !engine.has_value()) {
    if (const GivenValue* option = options.find(OptionId::kEngineOption); option != nullptr) {
      option->fail(option_spec(OptionId::kEngineOption),
                   "is for other engines: give --engine or --compare-engines");
    }
    return false;
  }
  const GivenValue* share = options.find(OptionId::kGpuMemoryUtilization);
  if (!compare && engine != Engine::kVllm && share != nullptr) {
    share->fail(option_spec(OptionId::kGpuMemoryUtilization),
                "is vLLM's share of the total; SGLang has --engine-option mem_fraction_static=..., "
                "TensorRT-LLM --engine-option free_gpu_memory_fraction=..., llama.cpp none");
  }
  return true;
}

ExitCode run_engines(const Options& options, const Deployment& deployment) {
  if (options.flag(OptionId::kCompareEngines)) {
    return compare_engines(options, deployment);
  }
  const std::vector answers{ask_engine(*asked_engine(options), options, deployment)};
  const EngineAnswer& answer = answers.front();
  if (options.flag(OptionId::kJson)) {
    print(engines_document(nullptr, answers));
    print_notes(options, deployment);
  } else {
    Report report{use_colour()};
    report_engine(answer, report);
    report_notes(options, deployment, report);
    print(report.text());
  }
  if (answer.error.has_value()) {
    print_error(*answer.error);
    return exit_code_of(answer.error->code);
  }
  return answer.fits() ? ExitCode::kFits : ExitCode::kDoesNotFit;
}

}  // namespace kvpool::cli
