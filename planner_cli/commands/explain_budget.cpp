// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/describe.hpp"
#include "commands/explain_report.hpp"
#include "output/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace kvpool::cli {
namespace {

/// What a pool of one more slab would be charged beyond its share.
[[nodiscard]] Bytes missing_for_one_more(const PoolDescriptor& pool, const PoolAccount& account) {
  PoolDescriptor larger = pool;
  larger.slabs += Slabs{1};
  return larger.charged_bytes() - account.share;
}

void explain_pool(const PoolDescriptor& pool, const PoolAccount& account, Report& report) {
  const std::string slab = pool.groups.size() > 1               ? "slab"
                           : pool.groups.front().group.is_state ? "slot"
                                                                : "page";
  report.line(fmt::format("{} bytes: ({} usable + {} reserved) {}s x {} = {}", pool.name,
                          count_text(pool.slabs.count()), pool.reserved_slabs.count(), slab,
                          bytes_text(pool.slab_bytes), bytes_text(pool.bytes())),
              2, 4);
  report.line(fmt::format("{} charged: ceil({} / {} granule) x {} = {}", pool.name,
                          bytes_text(pool.bytes()), bytes_text(pool.granularity),
                          bytes_text(pool.granularity), bytes_text(account.charged)),
              2, 4);
  for (const PooledGroup& group : pool.groups) {
    if (pool.groups.size() > 1) {
      report.line(fmt::format("{} planned: {} x {} = {} pages", group_label(pool, group),
                              counted(group.planned_slabs.count(), "slab"),
                              counted(group.pages_per_slab, "page"),
                              count_text(group.planned_pages().count())),
                  4, 6);
    }
    if (!group.group.is_state && group.group.span.kind == SpanKind::kFull) {
      report.line(
          fmt::format(
              "{} token slots: {} pages x {} tokens = {} tokens", group_label(pool, group),
              count_text(group.planned_pages().count()), group.page.tokens_per_block.count(),
              count_text(group.planned_pages().count() * group.page.tokens_per_block.count())),
          2, 4);
    }
  }
  report.line(fmt::format("{} share: {} pages + {} slab waste + {} reserved + {} loss = {}",
                          pool.name, bytes_text(account.pages), bytes_text(account.slab_waste),
                          bytes_text(account.reserved), bytes_text(account.loss),
                          bytes_text(account.share)),
              2, 4);
  if (const Bytes more = missing_for_one_more(pool, account); more.count() > 0) {
    report.line(
        fmt::format("one more {} would need {} more than the share", slab, bytes_text(more)), 2, 4);
  }
}

[[nodiscard]] const LedgerLine* find_line(const Plan& plan, std::string_view name) {
  const auto found = std::ranges::find(plan.ledger, name, &LedgerLine::name);
  return found == plan.ledger.end() ? nullptr : &*found;
}

/// `ceil((ceil(P x 16 bits / 8) + ceil(Q x 4.25 bits / 8)) / 16 ranks) = ...`.
/// Parts that are divided over different numbers of ranks; those divided as the rest join it.
void explain_uneven_weights(const WeightShares& shares, std::int64_t stages,
                            const std::string& words, Bytes sum, Report& report) {
  std::string terms;
  Bytes joined = shares.rest.stored;
  std::string names = "other weights";
  const auto term = [&](Bytes stored, std::int64_t ranks) {
    terms += fmt::format("{}ceil({} / ({} ranks x {} pp))", terms.empty() ? "" : " + ",
                         bytes_text(stored), ranks, stages);
  };
  for (const auto& [part, name] : {std::pair{shares.attention, "attention"},
                                   std::pair{shares.routed_experts, "routed experts"}}) {
    if (part.ranks == shares.rest.ranks) {
      joined += part.stored;
      names = fmt::format("{} and {}", name, names);
    } else if (part.stored.count() > 0) {
      term(part.stored, part.ranks);
      report.line(fmt::format("{} of {}: over {} ranks a stage", name, words, part.ranks), 2, 4);
    }
  }
  report.line(fmt::format("{} of {}: over {} ranks a stage", names, words, shares.rest.ranks), 2,
              4);
  term(joined, shares.rest.ranks);
  report.line(fmt::format("{}: {} = {}", words, terms, bytes_text(sum)), 2, 4);
}

void explain_weights(const Plan& plan, const ModelConfig& model, std::string_view line_name,
                     Report& report) {
  const LedgerLine* line = find_line(plan, line_name);
  if (line == nullptr || plan.request.budget.weights.has_value()) {
    return;
  }
  const bool on_last_stage = lies_on_last_stage(model);
  if (on_last_stage && plan.ledger_stage + 1 < plan.request.parallelism.pipeline) {
    report.line(words_of(line_name) + ": " + line->reason, 2, 4);
    return;
  }
  Parallelism spread = plan.request.parallelism;
  spread.pipeline = on_last_stage ? 1 : spread.pipeline;
  if (model.weights.has_value()) {
    explain_stored_weights(plan, model, line_name, spread, report);
    return;
  }
  const ParameterEstimate& estimate = model.parameters;
  std::string whole = fmt::format("ceil({} parameters x {} bits / 8)",
                                  count_text(estimate.plain.count()), estimate.plain_bits);
  if (estimate.quantized.count() > 0) {
    whole += fmt::format(" + ceil({} quantised parameters x {} bits / 800)",
                         count_text(estimate.quantized.count()), estimate.quantized_centibits);
  }
  const WeightShares shares = weight_shares(estimate, spread);
  if (shares.attention.ranks == shares.rest.ranks &&
      shares.routed_experts.ranks == shares.rest.ranks) {
    report.line(fmt::format("{}: ceil(({}) / ({} tp x {} pp)) = {}", words_of(line_name), whole,
                            spread.tensor, spread.pipeline, bytes_text(line->bytes)),
                2, 4);
  } else {
    explain_uneven_weights(shares, spread.pipeline, words_of(line_name), line->bytes, report);
  }
  report.line(
      "rests on: " + estimate.basis +
          (estimate.quantized.count() > 0 ? " (bits of a quantised parameter in hundredths)" : ""),
      4, 6);
}

/// The device's total less every line up to the budget.
void explain_budget_line(const Plan& plan, Report& report) {
  const auto budget = std::ranges::find(plan.ledger, "kv_budget", &LedgerLine::name);
  if (budget == plan.ledger.end()) {
    return;
  }
  if (budget == plan.ledger.begin()) {
    report.line(fmt::format("kv budget: {}, {}", bytes_text(budget->bytes), budget->reason), 2, 4);
    return;
  }
  std::string sum;
  for (auto line = plan.ledger.begin(); line != budget; ++line) {
    sum += fmt::format("{}{} {}", sum.empty() ? "" : " - ", bytes_text(line->bytes),
                       words_of(line->name));
  }
  report.line(fmt::format("kv budget: {} = {}", sum, bytes_text(budget->bytes)), 2, 4);
}

}  // namespace

void explain_pool_sizes(const Plan& plan, Report& report) {
  const PoolPlan& rank = plan.ranks.at(plan.smallest_rank);
  report.heading("5. From shares of the budget to pages");
  if (plan.resolution.draft_pool == DraftPoolKind::kOwnPool) {
    report.line(
        "target and draft get shares in which both reach the same number of tokens; each "
        "takes as many whole pages as its share holds in whole granules",
        2, 2);
  }
  for (std::size_t i = 0; i < rank.pools.size(); ++i) {
    explain_pool(rank.pools[i], rank.accounts[i], report);
    report.blank();
  }
  std::string sum;
  for (const PoolAccount& account : rank.accounts) {
    sum +=
        fmt::format("{}{} {}", sum.empty() ? "" : " + ", bytes_text(account.share), account.pool);
  }
  report.line(fmt::format("shares: {} + {} workspaces = {}", sum, bytes_text(rank.workspace),
                          bytes_text(rank.budget)),
              2, 4);
}

void explain_ledger(const Plan& plan, Report& report) {
  report.heading("6. From the device to the budget");
  if (const LedgerLine* total = find_line(plan, "device_total"); total != nullptr) {
    report.line(fmt::format("device total: {}, {}", bytes_text(total->bytes), total->reason), 2, 4);
    if (const LedgerLine* withheld = find_line(plan, "withheld"); withheld != nullptr) {
      report.line(
          fmt::format("withheld: {} - floor({} x {} / 1,000,000) = {}", bytes_text(total->bytes),
                      bytes_text(total->bytes), count_text(plan.request.budget.utilization_ppm),
                      bytes_text(withheld->bytes)),
          2, 4);
    }
  }
  explain_weights(plan, plan.request.target, "weights", report);
  if (plan.request.drafter.has_value() && plan.request.drafter->model.has_value()) {
    explain_weights(plan, *plan.request.drafter->model, "draft_weights", report);
  }
  for (const LedgerLine& line : plan.ledger) {
    if (line.kind == LedgerKind::kAssumed && line.name != "kv_budget" &&
        line.name != "device_total" && !line.name.ends_with("weights")) {
      report.line(
          fmt::format("{}: {}, between {} and {}; {}", words_of(line.name), bytes_text(line.bytes),
                      bytes_text(line.low), bytes_text(line.high), line.reason),
          2, 4);
    }
  }
  explain_budget_line(plan, report);
}

}  // namespace kvpool::cli
