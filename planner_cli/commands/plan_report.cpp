// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/plan_report.hpp"

#include <kvpool/plan/planner.hpp>

#include "commands/describe.hpp"
#include "output/numbers.hpp"
#include "request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace kvpool::cli {
namespace {

/// The line of the ledger that divides what others own from what kvpool owns.
constexpr std::string_view kBudgetLine = "kv_budget";

[[nodiscard]] bool refused(const Plan& plan) noexcept {
  return std::ranges::any_of(
      plan.refusals, [](const Refusal& refusal) { return refusal.missing_bytes.count() == 0; });
}

[[nodiscard]] Bytes missing_bytes(const Plan& plan) noexcept {
  Bytes missing;
  for (const Refusal& refusal : plan.refusals) {
    missing = std::max(missing, refusal.missing_bytes);
  }
  return missing;
}

[[nodiscard]] const PoolPlan& smallest(const Plan& plan) {
  return plan.ranks.at(plan.smallest_rank);
}

/// Bytes of the asked sequences on the smallest rank, page by page.
[[nodiscard]] Bytes asked_bytes(const Plan& plan) {
  Bytes sum;
  for (const PoolDescriptor& pool : smallest(plan).pools) {
    for (const PooledGroup& group : pool.groups) {
      sum += plan.resolution.sequences.count() *
             sequence_bytes(plan, pool, group, plan.resolution.max_model_len);
    }
  }
  return sum;
}

[[nodiscard]] std::string asked_text(const Plan& plan) {
  return counted(plan.resolution.sequences.count(), "sequence") + " of " +
         counted(plan.resolution.max_model_len.count(), "token");
}

[[nodiscard]] std::string model_text(const ModelConfig& model) {
  std::string text = model.name;
  if (!model.model_type.empty() && model.model_type != model.name) {
    text += " (" + model.model_type + ")";
  }
  return text + ": " + describe_layers(model);
}

[[nodiscard]] std::string drafter_text(const Plan& plan) {
  const DrafterRequest& drafter = *plan.request.drafter;
  std::string text{to_string(drafter.kind)};
  if (drafter.model.has_value()) {
    text += ", " + model_text(*drafter.model);
  } else if (drafter.kind == DrafterKind::kMtp) {
    text += ", " + counted(plan.request.target.mtp_layers.count(), "layer") + " of the target";
  }
  text += "; " + counted(plan.resolution.draft_tokens.count(), "token") + " a step, cache in " +
          words_of(to_string(plan.resolution.draft_pool));
  return text;
}

[[nodiscard]] std::string spread_text(const Parallelism& spread) {
  std::string text = fmt::format("tp {}, pp {}", spread.tensor, spread.pipeline);
  const auto add = [&text](std::string_view name, std::int64_t size) {
    if (size > 1) {
      text += fmt::format(", {} {}", name, size);
    }
  };
  add("dp", spread.data);
  add("dcp", spread.decode_context);
  add("ep", spread.expert);
  return text + (spread.attention_data_parallel ? ", attention dp" : "");
}

[[nodiscard]] std::string asked_as(const Options& options, OptionId id) {
  const std::string spelling = spelled_as(options, id);
  return spelling.empty() ? spelling : " (asked as " + spelling + ")";
}

[[nodiscard]] std::string deployment_text(const Plan& plan, const Options& options) {
  const PlanRequest& request = plan.request;
  std::string text = spread_text(request.parallelism);
  text += request.device.has_value()
              ? fmt::format("; {} ({})", request.device->name, request.device->architecture)
              : std::string{"; GPU not stated"};
  text += fmt::format("; cache {}{}", to_string(plan.resolution.target_formats.kv),
                      asked_as(options, OptionId::kKvCacheDtype));
  if (plan.resolution.draft_pool == DraftPoolKind::kOwnPool) {
    text += fmt::format(", draft cache {}{}", to_string(plan.resolution.draft_formats.kv),
                        asked_as(options, OptionId::kDraftKvCacheDtype));
  }
  text += fmt::format("; kernel set {}", to_string(request.kernel_set));
  if (request.kernel_set == KernelSet::kExact &&
      std::ranges::find(plan.decisions, "kernel_set", &Decision::id) == plan.decisions.end()) {
    text += " (as trtllm: it narrows the rows of DFlash and DSpark drafters alone)";
  }
  return text;
}

/// What the library calls the loss of a kernel that would have run.
constexpr std::string_view kLossId = "preferred_kernel_lost";

/// Name of the kernel that a decision loses.
[[nodiscard]] std::string lost_row(const Decision& decision) {
  return decision.verdicts.empty() ? words_of(decision.id) : decision.verdicts.front().row;
}

/// A kernel that would have run at another page, with all that is known of its cost.
void report_loss(const Decision& decision, Report& report) {
  report.line(fmt::format("lost: {}: {}", lost_row(decision), cost_text(decision.cost)), 2, 8,
              Emphasis::kNotice);
  report.line(fmt::format("{} page of {} instead of {}: {}", decision.pool, decision.chosen,
                          decision.instead_of, decision.reason),
              8, 8);
}

/// The lines that must not be overlooked.
void report_losses(const Plan& plan, Report& report) {
  for (const Decision& decision : plan.decisions) {
    if (decision.id == kLossId) {
      const CostOfChoice amount{
          .value = decision.cost.value, .unit = decision.cost.unit, .conditions = {}};
      report.line(fmt::format("lost     {}: {} ({} page of {} instead of {})", lost_row(decision),
                              amount.unit.empty() ? "cost unknown" : cost_text(amount),
                              decision.pool, decision.chosen, decision.instead_of),
                  2, 11, Emphasis::kNotice);
    }
  }
}

/// Whether it also fits when every assumed line turns out at its worst.
void report_margin(const Plan& plan, Report& report) {
  const auto budget = std::ranges::find(plan.ledger, kBudgetLine, &LedgerLine::name);
  if (!plan.fits || budget == plan.ledger.end() || budget->low == budget->bytes) {
    return;
  }
  const Result<Plan> planned = allocate_plan(plan.request, plan.resolution, BudgetEnd::kLow);
  const bool still = planned.has_value() && planned->fits;
  report.line(fmt::format("margin   {} at the worst end of the assumed lines, a KV budget of {}",
                          still ? "also fits" : "does not fit", short_size(budget->low)),
              2, 11, still ? Emphasis::kPlain : Emphasis::kNotice);
}

void report_decision(const Decision& decision, Report& report) {
  if (decision.id == kLossId) {
    report_loss(decision, report);
    return;
  }
  std::string what = words_of(decision.id);
  if (!decision.pool.empty()) {
    what += " (" + decision.pool + ")";
  }
  what += ": " + decision.chosen;
  if (!decision.instead_of.empty()) {
    what += " instead of " + decision.instead_of;
  }
  report.line(what, 2, 4);
  if (!decision.reason.empty()) {
    report.line(decision.reason, 4, 4);
  }
  if (const std::string cost = cost_text(decision.cost); !cost.empty()) {
    report.line("cost: " + cost, 4, 4);
  }
  // Row by row where a page was moved or a drafter decided; `explain` has all of them.
  if (decision.pool == "draft" || !decision.instead_of.empty()) {
    report_verdicts(decision.verdicts, report, 6);
  }
}

[[nodiscard]] std::string range_text(const LedgerLine& line) {
  return line.low == line.high
             ? std::string{}
             : fmt::format("{} - {}", gib_number(line.low), gib_number(line.high));
}

}  // namespace

ExitCode exit_code_of(const Plan& plan) noexcept {
  if (refused(plan)) {
    return ExitCode::kBadInput;
  }
  return plan.fits ? ExitCode::kFits : ExitCode::kDoesNotFit;
}

void report_deployment(const Plan& plan, const Options& options, Report& report) {
  report.line("model    " + model_text(plan.request.target), 2, 11);
  if (plan.request.drafter.has_value()) {
    report.line("drafter  " + drafter_text(plan), 2, 11);
  }
  report.line("deploy   " + deployment_text(plan, options), 2, 11);
  for (const std::string& note : request_notes(options, plan.request)) {
    report.line("note     " + note, 2, 11, Emphasis::kNotice);
  }
}

void report_headline(const Plan& plan, const Options& options, Report& report) {
  if (plan.fits) {
    report.line(
        fmt::format("FITS: {} in {} of a KV budget of {}; there is room for {}", asked_text(plan),
                    short_size(asked_bytes(plan)), short_size(smallest(plan).budget),
                    counted(plan.capacity.tokens.count(), "token")),
        0, 6, Emphasis::kGood);
  } else if (refused(plan)) {
    report.line("REFUSED: there is no plan for this deployment", 0, 9, Emphasis::kBad);
  } else {
    std::string text = "DOES NOT FIT: " + asked_text(plan);
    if (const Bytes missing = missing_bytes(plan); missing.count() > 0) {
      text += fmt::format("; {} ({}) are missing on each GPU", bytes_text(missing),
                          short_size(missing));
    }
    if (plan.capacity.max_len.count() > 0) {
      text += fmt::format("; {} of {} would fit",
                          counted(plan.resolution.sequences.count(), "sequence"),
                          counted(plan.capacity.max_len.count(), "token"));
    }
    report.line(text, 0, 14, Emphasis::kBad);
  }
  report.blank();
  report_deployment(plan, options, report);
  report_margin(plan, report);
  report_losses(plan, report);
}

void report_refusals(const Plan& plan, Report& report) {
  if (plan.refusals.empty()) {
    return;
  }
  report.heading("Why not");
  for (const Refusal& refusal : plan.refusals) {
    report.line(words_of(refusal.id) + ": " + refusal.what, 2, 4);
    if (refusal.missing_bytes.count() > 0) {
      report.line(fmt::format("missing: {} ({})", bytes_text(refusal.missing_bytes),
                              short_size(refusal.missing_bytes)),
                  4, 4);
    }
    if (!refusal.accepted.empty()) {
      report.line(fmt::format("accepted: {}", fmt::join(refusal.accepted, ", ")), 4, 4);
    }
    if (!refusal.least_that_works.empty()) {
      report.line("least that works: " + refusal.least_that_works, 4, 4);
    }
    report_verdicts(refusal.verdicts, report, 6);
  }
}

void report_decisions(const Plan& plan, Report& report) {
  if (plan.decisions.empty()) {
    return;
  }
  report.heading("Decisions");
  for (const Decision& decision : plan.decisions) {
    report_decision(decision, report);
  }
}

void report_ledger(const Plan& plan, Report& report) {
  if (plan.ledger.empty()) {
    return;
  }
  report.heading(plan.request.parallelism.pipeline == 1
                     ? std::string{"Memory of one GPU"}
                     : fmt::format("Memory of one GPU (stage {})", plan.ledger_stage));
  Table table{{{"line"},
               {"bytes", Align::kRight},
               {"GiB", Align::kRight},
               {"range", Align::kRight},
               {"kind"},
               {"where it comes from"}}};
  const auto budget = std::ranges::find(plan.ledger, kBudgetLine, &LedgerLine::name);
  for (auto line = plan.ledger.begin(); line != plan.ledger.end(); ++line) {
    const bool above = line < budget && budget != plan.ledger.end();
    std::string mark = "    ";
    if (line == budget) {
      mark = "= ";
    } else if (above) {
      mark = line == plan.ledger.begin() ? "" : "- ";
    }
    table.row({mark + words_of(line->name), count_text(line->bytes.count()),
               gib_number(line->bytes), range_text(*line), std::string{to_string(line->kind)},
               line->reason});
  }
  report.table(table);
}

}  // namespace kvpool::cli
