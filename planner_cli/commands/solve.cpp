// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/planner.hpp>
#include <kvpool/solve/solver.hpp>

#include "commands/commands.hpp"
#include "commands/plan_report.hpp"
#include "commands/solve_report.hpp"
#include "length_input.hpp"
#include "output/json_writer.hpp"
#include "output/terminal.hpp"
#include "request.hpp"
#include "spelling.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::cli {
namespace {

using enum OptionId;

/// What `--find` is asked with: the option's name, or what people call it.
struct FindSpelling {
  std::string_view text;
  Question question;
};

constexpr auto kFindSpellings = std::to_array<FindSpelling>({
    {"max-model-len", Question::kMaxModelLen},
    {"context-length", Question::kMaxModelLen},
    {"max-num-seqs", Question::kMaxNumSeqs},
    {"sequences", Question::kMaxNumSeqs},
    {"concurrency", Question::kMaxNumSeqs},
    {"gpus", Question::kGpus},
    {"gpu-memory-utilization", Question::kGpuMemoryUtilization},
    {"fraction", Question::kGpuMemoryUtilization},
    {"kv-cache-dtype", Question::kKvCacheDtype},
    {"page-size", Question::kPageSize},
    {"block-size", Question::kPageSize},
    {"drafter", Question::kDrafter},
    {"num-draft-tokens", Question::kNumDraftTokens},
});

/// The questions of the command line; nothing when none is named.
[[nodiscard]] std::vector<Question> asked_questions(const Options& options) {
  std::vector<Question> questions;
  const auto given = options.values.find(kFind);
  if (given == options.values.end()) {
    return questions;
  }
  for (const GivenValue& value : given->second) {
    std::string name = value.text;
    std::ranges::replace(name, '_', '-');
    const auto* const found = std::ranges::find(kFindSpellings, name, &FindSpelling::text);
    if (found == kFindSpellings.end()) {
      std::vector<std::string_view> names;
      std::ranges::transform(kFindSpellings, std::back_inserter(names), &FindSpelling::text);
      value.fail(option_spec(kFind), "cannot solve for '" + value.text + "'" +
                                         did_you_mean(name, names) + "; there are " +
                                         joined(names));
    }
    if (std::ranges::find(questions, found->question) == questions.end()) {
      questions.push_back(found->question);
    }
  }
  return questions;
}

/// The drafters of `--candidate`, read as `--drafter` is.
[[nodiscard]] std::vector<DrafterChoice> read_candidates(const Options& options,
                                                         InputCache& inputs) {
  std::vector<DrafterChoice> choices;
  const auto given = options.values.find(kCandidate);
  if (given == options.values.end()) {
    return choices;
  }
  for (const GivenValue& value : given->second) {
    Options with = options;
    with.values[kDrafter] = {value};
    PlanRequest request = read_request(with, inputs);
    choices.push_back({.name = value.text, .drafter = *std::move(request.drafter)});
  }
  return choices;
}

/// Everything that questions are asked with.
struct Solving {
  Deployment deployment;
  std::optional<LengthMix> mix;
  std::vector<DrafterChoice> candidates;
  GpuSearch gpus;
};

[[nodiscard]] LengthMix mix_or_even(const Solving& solving) {
  if (solving.mix.has_value()) {
    return *solving.mix;
  }
  const PlanRequest& request = solving.deployment.request;
  return even_mix(
      request.workload.max_model_len.value_or(request.target.max_positions.value_or(Tokens{1})));
}

[[nodiscard]] Result<Answer> solve(Question question, const Solving& solving) {
  const PlanRequest& request = solving.deployment.request;
  const CapabilityRegistry& registry = solving.deployment.registry;
  switch (question) {
    case Question::kMaxModelLen: return solve_max_model_len(request, registry);
    case Question::kMaxNumSeqs: {
      if (!solving.mix.has_value()) {
        return solve_max_num_seqs(request, registry);
      }
      // Planned for the longest sequence of the mix, unless a longer one is asked for.
      PlanRequest longest = request;
      if (!request.workload.max_model_len.has_value()) {
        longest.workload.max_model_len = solving.mix->longest();
      }
      return solve_max_num_seqs(longest, registry, *solving.mix);
    }
    case Question::kGpus: return solve_gpus(request, registry, solving.gpus);
    case Question::kGpuMemoryUtilization: return solve_gpu_memory_utilization(request, registry);
    case Question::kKvCacheDtype: return solve_kv_cache_dtype(request, registry);
    case Question::kPageSize: return solve_page_size(request, registry, mix_or_even(solving));
    case Question::kDrafter:
      return solving.candidates.empty() ? solve_drafter_layers(request, registry)
                                        : solve_drafter(request, registry, solving.candidates);
    case Question::kNumDraftTokens: return solve_num_draft_tokens(request, registry);
  }
  return solve_max_model_len(request, registry);
}

/// Questions that make no sense for a deployment are left out when all are asked.
[[nodiscard]] bool applies(Question question, const Solving& solving) {
  const PlanRequest& request = solving.deployment.request;
  switch (question) {
    case Question::kGpuMemoryUtilization: return !request.budget.kv_budget.has_value();
    case Question::kDrafter:
      return !solving.candidates.empty() ||
             (request.drafter.has_value() &&
              (request.drafter->model.has_value() || request.drafter->kind == DrafterKind::kMtp));
    case Question::kNumDraftTokens: return request.drafter.has_value();
    default: return true;
  }
}

[[nodiscard]] ExitCode exit_code_of(const std::vector<Answer>& answers) {
  ExitCode worst = ExitCode::kFits;
  for (const Answer& answer : answers) {
    if (!answer.found) {
      const ExitCode code =
          answer.binding.id == "does_not_fit" ? ExitCode::kDoesNotFit : ExitCode::kBadInput;
      worst = std::max(worst, code);
    }
  }
  return worst;
}

}  // namespace

ExitCode run_solve(const Options& options) {
  std::vector<Question> questions = asked_questions(options);
  InputCache inputs;
  Solving solving{
      .deployment = {.request = read_request(options, inputs), .registry = read_registry(options)},
      .mix = {},
      .candidates = read_candidates(options, inputs),
      .gpus = {}};
  solving.mix = read_lengths(options, solving.deployment.request);
  solving.gpus.most = read_whole_number(options, kMaxGpus, 1).value_or(solving.gpus.most);
  if (questions.empty()) {
    std::ranges::copy_if(all_questions(), std::back_inserter(questions),
                         [&](Question question) { return applies(question, solving); });
  }
  std::vector<Answer> answers;
  answers.reserve(questions.size());
  for (const Question question : questions) {
    answers.push_back(value_or_fail(solve(question, solving)));
  }
  if (options.flag(kJson)) {
    JsonWriter json;
    json.begin_object().text("schema", "kvpool.solve/1").begin_array("answers");
    for (const Answer& answer : answers) {
      write_answer(answer, json);
    }
    json.end_array().end_object();
    print(json.document());
  } else {
    Report report{use_colour()};
    report_deployment(
        value_or_fail(make_plan(solving.deployment.request, solving.deployment.registry)), options,
        report);
    for (const Answer& answer : answers) {
      report_answer(answer, report);
    }
    print(report.text());
  }
  return exit_code_of(answers);
}

}  // namespace kvpool::cli
