// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/allocations.hpp>
#include <kvpool/io/plan_document.hpp>
#include <kvpool/testing/agreement.hpp>

#include "commands/commands.hpp"
#include "output/json_writer.hpp"
#include "output/numbers.hpp"
#include "output/report.hpp"
#include "output/terminal.hpp"
#include "request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace kvpool::cli {
namespace {

using testing::AgreementReport;
using testing::PoolAgreement;

[[nodiscard]] std::string document_of(const PoolPlan& stage, const AgreementReport& agreement) {
  JsonWriter json;
  json.begin_object()
      .text("schema", "kvpool.verify/1")
      .boolean("agrees", agreement.agrees())
      .number("stage", stage.stage);
  json.begin_array("pools");
  for (const PoolAgreement& pool : agreement.pools) {
    json.begin_object()
        .text("pool", pool.pool)
        .boolean("agrees", pool.reason.empty())
        .number("charged_bytes", pool.charged.count())
        .number("held_bytes", pool.held.count())
        .number("difference_bytes", pool.difference.count())
        .text("reason", pool.reason)
        .end_object();
  }
  json.end_array().end_object();
  return json.document();
}

[[nodiscard]] std::string difference_text(Bytes difference) {
  return fmt::format("{}{}", difference.count() > 0 ? "+" : "", bytes_text(difference));
}

/// Which of several stages was compared, and how to ask for another.
void report_stage(const Plan& plan, const PoolPlan& stage, bool asked, Report& report) {
  if (plan.ranks.size() < 2) {
    return;
  }
  report.line(
      fmt::format("stage {} of 0 to {} was compared{}", stage.stage, plan.ranks.back().stage,
                  asked ? "" : ", which holds the fewest tokens; --stage N compares another"),
      0, 2, asked ? Emphasis::kPlain : Emphasis::kNotice);
}

void report_agreement(const Plan& plan, const PoolPlan& stage, bool asked,
                      const AgreementReport& agreement, Report& report) {
  const auto wrong = std::ranges::count_if(
      agreement.pools, [](const PoolAgreement& pool) { return !pool.reason.empty(); });
  if (agreement.agrees()) {
    report.line("AGREES: every pool holds exactly what the plan charges", 0, 8, Emphasis::kGood);
  } else {
    report.line("DISAGREES: " + counted(wrong, "pool") + " of " +
                    count_text(static_cast<std::int64_t>(agreement.pools.size())),
                0, 11, Emphasis::kBad);
  }
  report_stage(plan, stage, asked, report);
  report.blank();
  Table table{{{"pool"},
               {"charged", Align::kRight},
               {"held", Align::kRight},
               {"difference", Align::kRight},
               {"verdict"}}};
  for (const PoolAgreement& pool : agreement.pools) {
    table.row({pool.pool, bytes_text(pool.charged), bytes_text(pool.held),
               difference_text(pool.difference), pool.reason.empty() ? "agrees" : pool.reason});
  }
  report.table(table);
}

/// The stage to compare: the asked one, else the one that holds the fewest tokens.
[[nodiscard]] const PoolPlan& compared_stage(const Plan& plan, std::optional<std::int64_t> asked,
                                             const std::string& file) {
  if (!asked.has_value()) {
    return plan.ranks.at(plan.smallest_rank);
  }
  const auto found = std::ranges::find(plan.ranks, *asked, &PoolPlan::stage);
  if (found == plan.ranks.end()) {
    throw usage_failure(fmt::format("--stage: there is no stage {}; {} has {}", *asked, file,
                                    plan.ranks.size() > 1
                                        ? fmt::format("0 to {}", plan.ranks.back().stage)
                                        : std::string{"stage 0 only"}));
  }
  return *found;
}

}  // namespace

ExitCode run_verify(const Options& options) {
  const GivenValue* file = options.find(OptionId::kAllocations);
  if (options.input.empty()) {
    throw usage_failure("PLAN is missing: a document that 'kvplan plan --json' wrote");
  }
  if (file == nullptr) {
    throw usage_failure("--allocations FILE is missing");
  }
  const std::optional<std::int64_t> asked = read_stage(options);
  const Plan plan = value_or_fail(io::read_plan(options.input));
  if (plan.ranks.empty()) {
    throw Failure{
        ExitCode::kBadInput,
        Error{ErrorCode::kInvalidArgument, "the plan was refused and has no pools to compare with",
              options.input, "pools", ""}};
  }
  const PoolPlan& stage = compared_stage(plan, asked, options.input);
  const std::vector<Allocation> allocations = value_or_fail(io::read_allocations(file->text));
  const AgreementReport agreement = testing::check_allocations(stage, allocations);
  if (options.flag(OptionId::kJson)) {
    print(document_of(stage, agreement));
  } else {
    Report report{use_colour()};
    report_agreement(plan, stage, asked.has_value(), agreement, report);
    print(report.text());
  }
  return agreement.agrees() ? ExitCode::kFits : ExitCode::kDoesNotFit;
}

}  // namespace kvpool::cli
