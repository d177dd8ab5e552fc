// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/core/checked.hpp>
#include <kvpool/plan/planner.hpp>
#include <kvpool/solve/solver.hpp>

#include "core/format.hpp"
#include "solve/changes.hpp"
#include "solve/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <compare>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace kvpool {
namespace {

constexpr std::array<std::int64_t, 8> kStages{1, 2, 3, 4, 6, 8, 12, 16};

/// Parts over which the sequences of a deployment are divided.
std::int64_t parts_of(const Parallelism& p) {
  return (CheckedInt{p.data} * (p.attention_data_parallel ? p.tensor : 1)).saturated();
}

/// The deployment with its part of `total` sequences in each replica (or rank).
PlanRequest dealt_out(const PlanRequest& request, const Parallelism& parallelism,
                      std::int64_t total) {
  PlanRequest dealt = with_parallelism(request, parallelism);
  dealt.workload.max_num_seqs = Sequences{ceil_div(total, parts_of(parallelism))};
  return dealt;
}

/// A deployment that holds all sequences.
struct Found {
  std::int64_t gpus = 0;
  Parallelism parallelism{};
  std::int64_t room = 0;

  /// True if this one is to be preferred.
  [[nodiscard]] bool beats(const Found& other) const {
    if (gpus != other.gpus) {
      return gpus < other.gpus;
    }
    if (parallelism.pipeline != other.parallelism.pipeline) {
      return parallelism.pipeline < other.parallelism.pipeline;
    }
    return room > other.room;
  }
};

class Search {
 public:
  Search(const PlanRequest& request, const CapabilityRegistry& registry, GpuSearch limits)
      : request_{request},
        registry_{registry},
        limits_{limits},
        total_{request.workload.max_num_seqs.value_or(Sequences{1}).count()} {}

  [[nodiscard]] std::int64_t total() const { return total_; }

  /// The best deployment of all splits, or nothing.
  std::optional<Found> run() {
    for (const Parallelism& split : splits()) {
      try_split(split);
    }
    return best_;
  }

  /// What the deployments looked at hold, by split.
  [[nodiscard]] std::vector<Candidate> candidates() && { return std::move(candidates_); }

  /// The deployment with fewer GPUs that misses the fewest bytes.
  [[nodiscard]] std::optional<PlanRequest> nearest_miss(std::int64_t below) const {
    std::optional<PlanRequest> nearest;
    Bytes least{INT64_MAX};
    for (const Parallelism& split : splits()) {
      const std::int64_t one = gpus_of(split);
      if (one >= below) {
        continue;
      }
      Parallelism most = split;
      most.data = (below - 1) / one;
      const PlanRequest request = dealt_out(request_, most, total_);
      const BindingConstraint binding = binding_of(request, registry_);
      if (binding.missing.count() > 0 && binding.missing < least) {
        least = binding.missing;
        nearest = request;
      }
    }
    return nearest;
  }

 private:
  /// Tensor and pipeline sizes, fewest GPUs first.
  [[nodiscard]] std::vector<Parallelism> splits() const {
    std::vector<Parallelism> all;
    const auto layers = static_cast<std::int64_t>(request_.target.layers.size());
    for (std::int64_t tensor = 1; tensor <= limits_.most_tensor; tensor *= 2) {
      const std::int64_t heads = request_.target.query_heads.count();
      if (heads > 0 && heads % tensor != 0) {
        break;  // engines divide query heads evenly
      }
      for (const std::int64_t stages : kStages) {
        Parallelism split = request_.parallelism;
        split.tensor = tensor;
        split.pipeline = stages;
        split.data = 1;
        if (stages <= std::min(limits_.most_pipeline, layers) && gpus_of(split) <= limits_.most &&
            state_parallel_size(split) % split.decode_context == 0) {
          all.push_back(split);
        }
      }
    }
    std::ranges::sort(all, {}, [](const Parallelism& split) {
      return std::tuple{gpus_of(split), split.tensor, split.pipeline};
    });
    return all;
  }

  void try_split(Parallelism split) {
    const std::int64_t one = gpus_of(split);
    if (best_.has_value() && one > best_->gpus) {
      return;
    }
    const std::int64_t ranks = split.attention_data_parallel ? split.tensor : 1;
    PlanRequest probe = dealt_out(request_, split, 1);
    const std::int64_t most = most_that(total_, [&](std::int64_t sequences) {
      probe.workload.max_num_seqs = Sequences{sequences};
      return fits(probe, registry_);
    });
    Candidate candidate{
        .name = fmt::format("--tp {} --pp {}", split.tensor, split.pipeline),
        .fits = false,
        .figures = {{"gpus_of_replica", one, "gpus"}, {"sequences", most, "sequences"}}};
    if (most == 0) {
      probe.workload.max_num_seqs = Sequences{1};
      candidate.note = binding_of(probe, registry_).what;
    } else {
      split.data = ceil_div(ceil_div(total_, most), ranks);
      const PlanRequest dealt = dealt_out(request_, split, total_);
      const auto plan = plan_of(dealt, registry_);
      const std::int64_t gpus = gpus_of(split);
      candidate.fits = plan.has_value() && plan->fits && gpus <= limits_.most;
      candidate.figures.push_back({"gpus", gpus, "gpus"});
      if (candidate.fits) {
        const Found found{
            .gpus = gpus,
            .parallelism = split,
            .room = (CheckedInt{plan->capacity.tokens.count()} * parts_of(split)).saturated()};
        if (!best_.has_value() || found.beats(*best_)) {
          best_ = found;
        }
      } else {
        candidate.note = fmt::format("more than {} GPUs", limits_.most);
      }
    }
    candidates_.push_back(std::move(candidate));
  }

  const PlanRequest& request_;
  const CapabilityRegistry& registry_;
  GpuSearch limits_;
  std::int64_t total_;
  std::optional<Found> best_;
  std::vector<Candidate> candidates_;
};

}  // namespace

Result<Answer> solve_gpus(const PlanRequest& request, const CapabilityRegistry& registry,
                          GpuSearch search) {
  if (auto plan = make_plan(request, registry); !plan) {
    return std::move(plan).error();
  }
  Answer answer{.question = Question::kGpus, .unit = "gpus", .request = request};
  Search all{request, registry, search};
  const auto best = all.run();
  answer.found = best.has_value();
  if (request.budget.weights.has_value()) {
    answer.notes.emplace_back(
        "the weights that were given hold for the given split only: other splits are planned with "
        "estimated weights");
  }
  if (request.budget.kv_budget.has_value()) {
    answer.notes.emplace_back("every GPU is taken to have the given KV budget, whatever the split");
  }
  if (answer.found) {
    const Parallelism& p = best->parallelism;
    answer.value = best->gpus;
    answer.request = dealt_out(request, p, all.total());
    const std::int64_t each = answer.request.workload.max_num_seqs->count();
    answer.options = fmt::format("--tp {} --pp {} --dp {}", p.tensor, p.pipeline, p.data);
    answer.figures = {{"tensor", p.tensor, ""},
                      {"pipeline", p.pipeline, ""},
                      {"data", p.data, ""},
                      {"sequences_each", each, "sequences"}};
    if (parts_of(p) > 1) {
      answer.notes.push_back(fmt::format("each {} plans for {} of the {} sequences",
                                         p.attention_data_parallel ? "rank" : "replica",
                                         format_count(each), format_count(all.total())));
    }
  }
  const std::int64_t below = answer.found ? answer.value : search.most + 1;
  answer.beyond = all.nearest_miss(below);
  if (answer.beyond.has_value()) {
    answer.binding = binding_of(*answer.beyond, registry);
    const Parallelism& p = answer.beyond->parallelism;
    answer.binding.what = fmt::format("nearest with fewer GPUs, --tp {} --pp {} --dp {}: {}",
                                      p.tensor, p.pipeline, p.data, answer.binding.what);
  } else if (!answer.found) {
    answer.binding = binding_of(request, registry);
  } else {
    answer.binding = {.id = "search_limit", .what = "there is no smaller deployment"};
  }
  answer.candidates = std::move(all).candidates();
  add_reliefs(
      request, registry,
      {ChangeKind::kSetting, ChangeKind::kFormat, ChangeKind::kDraftFormat, ChangeKind::kFewer,
       ChangeKind::kShorter, ChangeKind::kNoDrafter, ChangeKind::kAttentionDp},
      [&](const Change& change) -> std::optional<Outcome> {
        Search other{change.request, registry, search};
        const auto found = other.run();
        return found.has_value() ? std::optional{Outcome{.value = found->gpus}} : std::nullopt;
      },
      [](std::int64_t a, std::int64_t b) { return a < b; }, answer);
  for (Relief& relief : answer.reliefs) {
    relief.gpus = relief.value;
  }
  return answer;
}

}  // namespace kvpool
