// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/planner.hpp>
#include <kvpool/solve/solver.hpp>

#include "core/format.hpp"
#include "solve/changes.hpp"
#include "solve/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace kvpool {
namespace {

constexpr std::int64_t kWhole = 1'000'000;

PlanRequest with_share(PlanRequest request, std::int64_t ppm) {
  request.budget.utilization_ppm = ppm;
  return request;
}

std::optional<LedgerLine> budget_line(const PlanRequest& request,
                                      const CapabilityRegistry& registry) {
  const auto plan = plan_of(request, registry);
  const LedgerLine* line = plan.has_value() ? plan->find_line("kv_budget") : nullptr;
  return line == nullptr ? std::nullopt : std::optional{*line};
}

/// Smallest share that fits, or 0. Fitting is asked from above: the most that may be withheld.
std::int64_t smallest_share(const PlanRequest& request, const CapabilityRegistry& registry) {
  PlanRequest probe = request;
  const std::int64_t withheld = most_that(kWhole, [&](std::int64_t steps) {
    probe.budget.utilization_ppm = kWhole - (steps - 1);
    return probe.budget.utilization_ppm >= 1 && fits(probe, registry);
  });
  return withheld == 0 ? 0 : kWhole - (withheld - 1);
}

/// What each stage has left.
std::vector<LedgerLine> budget_lines(const PlanRequest& request) {
  const auto ledgers = stage_ledgers(request);
  std::vector<LedgerLine> lines;
  if (ledgers.has_value()) {
    for (const std::vector<LedgerLine>& ledger : *ledgers) {
      lines.push_back(ledger.back());
    }
  }
  return lines;
}

/// Largest share whose pools leave room for every assumed line at its worst on every stage, or 0:
/// with all of the GPU, this is what is left at the worst end.
std::int64_t largest_share(const PlanRequest& request) {
  const std::vector<LedgerLine> worst = budget_lines(with_share(request, kWhole));
  if (worst.empty()) {
    return 0;
  }
  PlanRequest probe = request;
  return most_that(kWhole, [&](std::int64_t ppm) {
    probe.budget.utilization_ppm = ppm;
    return std::ranges::equal(
        budget_lines(probe), worst,
        [](const LedgerLine& line, const LedgerLine& least) { return line.bytes <= least.low; });
  });
}

std::string share_text(std::int64_t ppm) {
  std::string text = fmt::format("{}.{:06}", ppm / kWhole, ppm % kWhole);
  text.erase(text.find_last_not_of('0') + 1);
  return text.ends_with('.') ? text + "0" : text;
}

}  // namespace

Result<Answer> solve_gpu_memory_utilization(const PlanRequest& request,
                                            const CapabilityRegistry& registry) {
  if (auto plan = make_plan(request, registry); !plan) {
    return std::move(plan).error();
  }
  if (request.budget.kv_budget.has_value()) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "a KV budget is given: the share of the GPU above it is not looked at",
                 .key = "kv_budget"};
  }
  Answer answer{
      .question = Question::kGpuMemoryUtilization, .unit = "millionths", .request = request};
  answer.value = smallest_share(request, registry);
  answer.found = answer.value > 0;
  const std::int64_t largest = largest_share(request);
  answer.figures.push_back({.name = "largest", .value = largest, .unit = "millionths"});
  answer.request = with_share(request, answer.found ? answer.value : kWhole);
  if (const auto line = budget_line(answer.request, registry); line.has_value()) {
    answer.figures.push_back({.name = "kv_budget", .value = line->bytes.count(), .unit = "bytes"});
  }
  if (answer.value != 1) {
    answer.beyond = with_share(request, answer.found ? answer.value - 1 : kWhole);
    answer.binding = binding_of(*answer.beyond, registry);
  }
  if (answer.found) {
    answer.options = fmt::format("--gpu-memory-utilization {}", share_text(answer.value));
    if (largest == kWhole) {
      answer.notes.emplace_back(
          "nothing is assumed above the KV budget: the whole GPU may be used");
    } else if (largest >= answer.value) {
      answer.notes.push_back(fmt::format(
          "from {} to {} it starts even if every assumed line is at its worst; above that only if "
          "overheads turn out lower",
          share_text(answer.value), share_text(largest)));
    } else {
      answer.notes.push_back(
          fmt::format("it starts if overheads are as expected; if every assumed line were at its "
                      "worst, {} would "
                      "be the most, and the sequences would not fit",
                      largest == 0 ? std::string{"no share"} : share_text(largest)));
    }
  }
  add_reliefs(
      answer.request, registry,
      {ChangeKind::kFormat, ChangeKind::kDraftFormat, ChangeKind::kFewer, ChangeKind::kShorter,
       ChangeKind::kNoDrafter, ChangeKind::kTensor, ChangeKind::kPipeline, ChangeKind::kData},
      [&](const Change& change) -> std::optional<Outcome> {
        const std::int64_t share = smallest_share(change.request, registry);
        return share > 0 ? std::optional{Outcome{.value = share, .chosen = share_text(share)}}
                         : std::nullopt;
      },
      [](std::int64_t a, std::int64_t b) { return a < b; }, answer);
  return answer;
}

}  // namespace kvpool
