// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/plan_document.hpp>
#include <kvpool/plan/planner.hpp>
#include <kvpool/solve/advice.hpp>

#include "commands/commands.hpp"
#include "commands/engines.hpp"
#include "commands/plan_report.hpp"
#include "commands/verify_on_gpu.hpp"
#include "length_input.hpp"
#include "output/terminal.hpp"
#include "request.hpp"

#include <optional>
#include <string>
#include <vector>

namespace kvpool::cli {

namespace {

/// The exit code of a plan that was printed, after what a GPU has to say.
[[nodiscard]] ExitCode verified(const Plan& plan, const Options& options) {
  const ExitCode code = exit_code_of(plan);
  if (code != ExitCode::kFits || !options.flag(OptionId::kVerifyOnGpu)) {
    return code;  // what does not fit is not allocated
  }
  return verify_on_gpu(plan, options.flag(OptionId::kJson));
}

}  // namespace

ExitCode run_plan(const Options& options) {
  const bool engines = asks_for_engines(options);
  const Deployment deployment = read_deployment(options);
  if (engines) {
    return run_engines(options, deployment);
  }
  const Plan plan = value_or_fail(make_plan(deployment.request, deployment.registry));
  const std::optional<LengthMix> mix = read_lengths(options, plan);
  const std::vector<Advice> advice =
      advise(plan, deployment.registry, mix.has_value() ? &*mix : nullptr);
  if (options.flag(OptionId::kJson)) {
    std::string document = io::plan_to_json(plan, advice);
    if (!document.ends_with('\n')) {
      document += '\n';
    }
    print(document);
    for (const std::string& note : request_notes(options, plan.request)) {
      print_note(note);
    }
    return verified(plan, options);
  }
  Report report{use_colour()};
  report_headline(plan, options, report);
  report_refusals(plan, report);
  report_ways_out(plan, deployment.registry, report);
  report_ledger(plan, report);
  if (!plan.ranks.empty()) {
    report_pools(plan, report);
    report_capacity(plan, report);
  }
  report_decisions(plan, report);
  report_advice(advice, report);
  print(report.text());
  return verified(plan, options);
}

}  // namespace kvpool::cli
