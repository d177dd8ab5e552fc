// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// How much a deployment holds: the longest sequence, and the most sequences.
#include <kvpool/core/checked.hpp>
#include <kvpool/plan/planner.hpp>
#include <kvpool/solve/solver.hpp>

#include "core/format.hpp"
#include "solve/changes.hpp"
#include "solve/probe.hpp"

#include <fmt/format.h>

#include <utility>

namespace kvpool {
namespace {

/// The planner's own limits.
constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;
constexpr std::int64_t kMostSequences = std::int64_t{1} << 31;

PlanRequest with_length(PlanRequest request, std::int64_t length) {
  request.workload.max_model_len = Tokens{length};
  return request;
}

PlanRequest with_sequences(PlanRequest request, std::int64_t sequences) {
  request.workload.max_num_seqs = Sequences{sequences};
  return request;
}

std::int64_t longest_by_memory(const PlanRequest& request, const CapabilityRegistry& registry) {
  PlanRequest probe = request;
  return most_that(kMostTokens, [&](std::int64_t length) {
    probe.workload.max_model_len = Tokens{length};
    return fits(probe, registry);
  });
}

/// Whether a number of sequences fits; of one length, or of a mix.
class SequenceQuestion {
 public:
  SequenceQuestion(const CapabilityRegistry& registry, const LengthMix* mix)
      : registry_{registry}, mix_{mix} {}

  [[nodiscard]] bool holds(const PlanRequest& request) const {
    if (mix_ == nullptr) {
      return fits(request, registry_);
    }
    const auto plan = plan_of(request, registry_);
    return plan.has_value() &&
           !pool_that_runs_out(*plan, sequences_of(*mix_, *request.workload.max_num_seqs));
  }
  [[nodiscard]] std::int64_t most(const PlanRequest& request) const {
    PlanRequest probe = request;
    return most_that(kMostSequences, [&](std::int64_t sequences) {
      probe.workload.max_num_seqs = Sequences{sequences};
      return holds(probe);
    });
  }
  [[nodiscard]] BindingConstraint binding(const PlanRequest& request) const {
    if (mix_ == nullptr) {
      return binding_of(request, registry_);
    }
    const auto plan = plan_of(request, registry_);
    if (!plan.has_value() || plan->ranks.empty()) {
      return binding_of(request, registry_);
    }
    const auto pool =
        pool_that_runs_out(*plan, sequences_of(*mix_, *request.workload.max_num_seqs));
    if (!pool.has_value()) {
      return {};
    }
    return {.id = "does_not_fit",
            .what = fmt::format("the pages of {} sequences of the mix are more than the pool has",
                                format_count(request.workload.max_num_seqs->count())),
            .pool = pool->pool,
            .stage = pool->stage};
  }

 private:
  const CapabilityRegistry& registry_;
  const LengthMix* mix_;
};

std::int64_t replicas_of(const PlanRequest& request, std::int64_t data_before) {
  return request.parallelism.data / data_before;
}

Answer sequences_answer(const PlanRequest& request, const CapabilityRegistry& registry,
                        const LengthMix* mix) {
  const SequenceQuestion question{registry, mix};
  Answer answer{.question = Question::kMaxNumSeqs, .unit = "sequences", .request = request};
  answer.value = question.most(request);
  answer.found = answer.value > 0;
  if (answer.found) {
    answer.request = with_sequences(request, answer.value);
    answer.options = fmt::format("--max-num-seqs {}", answer.value);
  }
  if (answer.value < kMostSequences) {
    answer.beyond = with_sequences(request, answer.value + 1);
    answer.binding = question.binding(*answer.beyond);
  } else {
    answer.binding = {.id = "search_limit", .what = "more than 2^31 sequences are not looked for"};
  }
  const std::int64_t data = request.parallelism.data;
  add_reliefs(
      answer.found ? answer.request : request, registry,
      {ChangeKind::kSetting, ChangeKind::kFormat, ChangeKind::kDraftFormat, ChangeKind::kShorter,
       ChangeKind::kNoDrafter, ChangeKind::kTensor, ChangeKind::kPipeline},
      [&](const Change& change) -> std::optional<Outcome> {
        if (change.kind == ChangeKind::kShorter && mix != nullptr) {
          return std::nullopt;
        }
        const std::int64_t most = question.most(change.request);
        return most > 0
                   ? std::optional{Outcome{
                         .value =
                             (CheckedInt{most} * replicas_of(change.request, data)).saturated()}}
                   : std::nullopt;
      },
      [](std::int64_t a, std::int64_t b) { return a > b; }, answer);
  if (answer.found && answer.value < kMostSequences) {
    // Each replica holds as many again.
    const std::int64_t gpus = gpus_of(request.parallelism);
    answer.reliefs.push_back(
        {.change = fmt::format("--dp {}", data * 2), .value = answer.value * 2, .gpus = gpus * 2});
  }
  return answer;
}

}  // namespace

Result<Answer> solve_max_model_len(const PlanRequest& request, const CapabilityRegistry& registry) {
  // Any length will do here: whether the request is malformed does not depend on it.
  if (auto plan = make_plan(with_length(request, 1), registry); !plan) {
    return std::move(plan).error();
  }
  Answer answer{.question = Question::kMaxModelLen, .unit = "tokens", .request = request};
  const std::int64_t memory = longest_by_memory(request, registry);
  const auto& positions = request.target.max_positions;
  const bool capped = positions.has_value() && positions->count() <= memory;
  answer.value = capped ? positions->count() : memory;
  answer.found = answer.value > 0;
  answer.figures.push_back({.name = "memory_alone", .value = memory, .unit = "tokens"});
  if (memory < kMostTokens) {
    answer.beyond = with_length(request, memory + 1);
    answer.binding = binding_of(*answer.beyond, registry);
  } else {
    answer.binding = {.id = "search_limit", .what = "more than 2^40 tokens are not looked for"};
  }
  if (answer.found) {
    answer.request = with_length(request, answer.value);
    answer.options = fmt::format("--max-model-len {}", answer.value);
  }
  if (capped) {
    answer.binding = {.id = "max_position_embeddings",
                      .what = fmt::format("the config states {} positions; memory alone would hold "
                                          "{} tokens a sequence",
                                          format_count(positions->count()), format_count(memory))};
    return answer;  // more memory does not help
  }
  add_reliefs(
      with_length(request, std::max<std::int64_t>(answer.value, 1)), registry,
      {ChangeKind::kSetting, ChangeKind::kFormat, ChangeKind::kDraftFormat, ChangeKind::kFewer,
       ChangeKind::kNoDrafter, ChangeKind::kTensor, ChangeKind::kPipeline, ChangeKind::kData},
      [&](const Change& change) -> std::optional<Outcome> {
        const std::int64_t longest = longest_by_memory(change.request, registry);
        if (longest == 0) {
          return std::nullopt;
        }
        return Outcome{.value =
                           positions.has_value() ? std::min(longest, positions->count()) : longest};
      },
      [](std::int64_t a, std::int64_t b) { return a > b; }, answer);
  return answer;
}

Result<Answer> solve_max_num_seqs(const PlanRequest& request, const CapabilityRegistry& registry) {
  if (auto plan = make_plan(request, registry); !plan) {
    return std::move(plan).error();
  }
  return sequences_answer(request, registry, nullptr);
}

Result<Answer> solve_max_num_seqs(const PlanRequest& request, const CapabilityRegistry& registry,
                                  const LengthMix& mix) {
  auto plan = make_plan(request, registry);
  if (!plan) {
    return std::move(plan).error();
  }
  if (mix.longest() > plan->resolution.max_model_len) {
    return Error{
        .code = ErrorCode::kInvalidArgument,
        .message = fmt::format("the mix has sequences of {} tokens, and {} are the longest "
                               "that are planned for",
                               mix.longest().count(), plan->resolution.max_model_len.count()),
        .key = "lengths"};
  }
  return sequences_answer(request, registry, &mix);
}

}  // namespace kvpool
