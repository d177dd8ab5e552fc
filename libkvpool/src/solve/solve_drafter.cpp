// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/core/checked.hpp>
#include <kvpool/plan/planner.hpp>
#include <kvpool/solve/solver.hpp>

#include "core/format.hpp"
#include "solve/changes.hpp"
#include "solve/fast_path.hpp"
#include "solve/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace kvpool {
namespace {

constexpr std::int64_t kMostLayers = 1024;
constexpr std::int64_t kMostDraftTokens = 1024;

/// The model with `layers` layers, its own in turn.
ModelConfig with_layers(const ModelConfig& model, std::int64_t layers) {
  ModelConfig scaled = model;
  const auto own = static_cast<std::int64_t>(model.layers.size());
  scaled.layers.clear();
  for (std::int64_t i = 0; i < layers; ++i) {
    ModelLayer layer = model.layers[static_cast<std::size_t>(i % own)];
    if (layer.shares_with.has_value()) {
      const auto turn = static_cast<std::int32_t>(i / own * own);
      layer.shares_with = LayerIndex{layer.shares_with->value() + turn};
    }
    layer.index = LayerIndex{static_cast<std::int32_t>(i)};
    scaled.layers.push_back(std::move(layer));
  }
  const auto scale = [&](std::int64_t value) {
    return ceil_div(CheckedInt{value} * layers, CheckedInt{own}).saturated();
  };
  scaled.weights.reset();  // those of its own layers alone
  ParameterEstimate& parameters = scaled.parameters;
  parameters.plain = Elements{scale(parameters.plain.count())};
  parameters.quantized = Elements{scale(parameters.quantized.count())};
  parameters.attention = Bytes{scale(parameters.attention.count())};
  parameters.routed_experts = Bytes{scale(parameters.routed_experts.count())};
  return scaled;
}

PlanRequest with_drafter_layers(const PlanRequest& request, std::int64_t layers) {
  PlanRequest changed = request;
  if (request.drafter->model.has_value()) {
    changed.drafter->model = with_layers(*request.drafter->model, layers);
  } else {
    changed.target.mtp_layers = Layers{layers};
  }
  return changed;
}

std::int64_t most_layers(const PlanRequest& request, const CapabilityRegistry& registry) {
  return most_that(kMostLayers, [&](std::int64_t layers) {
    return fits(with_drafter_layers(request, layers), registry);
  });
}

Error no_drafter() {
  return {.code = ErrorCode::kInvalidArgument,
          .message =
              "there is no drafter with a cache of its own to ask about: name one with "
              "--drafter or --drafter-kind",
          .key = "drafter"};
}

/// What a drafter takes on a rank.
struct DrafterNeed {
  std::size_t choice = 0;
  Bytes cache{};
  Bytes weights{};
  bool fits = false;
};

PlanRequest with_choice(PlanRequest request, const DrafterChoice& choice) {
  request.drafter = choice.drafter;
  return request;
}

}  // namespace

Result<Answer> solve_drafter(const PlanRequest& request, const CapabilityRegistry& registry,
                             std::span<const DrafterChoice> choices) {
  PlanRequest alone = request;
  alone.drafter.reset();
  if (auto plan = make_plan(alone, registry); !plan) {
    return std::move(plan).error();
  }
  Answer answer{.question = Question::kDrafter, .request = alone};
  const auto base = least_kv_budget(alone, registry);
  std::vector<DrafterNeed> needs;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const PlanRequest changed = with_choice(request, choices[i]);
    Candidate candidate{.name = choices[i].name};
    const auto plan = plan_of(changed, registry);
    const auto needed = least_kv_budget(changed, registry);
    candidate.fits = plan.has_value() && plan->fits;
    if (!plan.has_value() || !needed.has_value() || !needed->has_value() || !base.has_value() ||
        !base->has_value()) {
      candidate.note = binding_of(changed, registry).what;
      answer.candidates.push_back(std::move(candidate));
      continue;
    }
    const LedgerLine* line = plan->find_line("draft_weights");
    const DrafterNeed need{.choice = i,
                           .cache = **needed - **base,
                           .weights = line == nullptr ? Bytes{0} : line->bytes,
                           .fits = candidate.fits};
    candidate.figures = {{"cache_bytes", need.cache.count(), "bytes"},
                         {"weight_bytes", need.weights.count(), "bytes"}};
    if (!candidate.fits) {
      candidate.note = binding_of(changed, registry).what;
    }
    answer.candidates.push_back(std::move(candidate));
    needs.push_back(need);
  }
  std::ranges::sort(needs, {}, [](const DrafterNeed& need) {
    return std::pair{need.cache + need.weights, need.choice};
  });
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    if (needs[i].fits) {
      best = i;
    }
  }
  answer.found = best.has_value();
  if (best.has_value()) {
    const DrafterChoice& choice = choices[needs[*best].choice];
    answer.request = with_choice(request, choice);
    answer.options = "--drafter " + choice.name;
    answer.figures = {{"cache_bytes", needs[*best].cache.count(), "bytes"},
                      {"weight_bytes", needs[*best].weights.count(), "bytes"}};
  }
  if (const std::size_t next = best.has_value() ? *best + 1 : 0; next < needs.size()) {
    answer.beyond = with_choice(request, choices[needs[next].choice]);
    answer.binding = binding_of(*answer.beyond, registry);
  } else if (!best.has_value() && !choices.empty()) {
    answer.binding = binding_of(with_choice(request, choices.front()), registry);
  }
  // Places among the drafters by size, from 1 on.
  answer.value = best.has_value() ? static_cast<std::int64_t>(*best) + 1 : 0;
  add_reliefs(
      alone, registry,
      {ChangeKind::kSetting, ChangeKind::kFormat, ChangeKind::kFewer, ChangeKind::kShorter,
       ChangeKind::kTensor, ChangeKind::kPipeline, ChangeKind::kData},
      [&](const Change& change) -> std::optional<Outcome> {
        for (std::size_t place = needs.size(); place > 0; --place) {
          const DrafterChoice& choice = choices[needs[place - 1].choice];
          if (fits(with_choice(change.request, choice), registry)) {
            return Outcome{.value = static_cast<std::int64_t>(place), .chosen = choice.name};
          }
        }
        return std::nullopt;
      },
      [](std::int64_t a, std::int64_t b) { return a > b; }, answer);
  answer.value = 0;
  return answer;
}

Result<Answer> solve_drafter_layers(const PlanRequest& request,
                                    const CapabilityRegistry& registry) {
  auto plan = make_plan(request, registry);
  if (!plan) {
    return std::move(plan).error();
  }
  const bool asks = request.drafter.has_value() &&
                    plan->resolution.draft_pool != DraftPoolKind::kNone &&
                    (request.drafter->model.has_value() ? !request.drafter->model->layers.empty()
                                                        : request.target.mtp_layers.count() > 0);
  if (!asks) {
    return no_drafter();
  }
  Answer answer{.question = Question::kDrafter, .unit = "layers", .request = request};
  answer.value = most_layers(request, registry);
  answer.found = answer.value > 0;
  const std::int64_t own = request.drafter->model.has_value()
                               ? static_cast<std::int64_t>(request.drafter->model->layers.size())
                               : request.target.mtp_layers.count();
  answer.figures.push_back({"own_layers", own, "layers"});
  if (answer.found) {
    answer.request = with_drafter_layers(request, answer.value);
    answer.options = fmt::format("a drafter of {} layers", answer.value);
  }
  if (answer.value < kMostLayers) {
    answer.beyond = with_drafter_layers(request, answer.value + 1);
    answer.binding = binding_of(*answer.beyond, registry);
  } else {
    answer.binding = {.id = "search_limit",
                      .what = fmt::format("more than {} layers are not looked for", kMostLayers)};
  }
  if (!request.drafter->model.has_value()) {
    answer.notes.emplace_back("weights of further next-token layers are not counted");
  } else if (!request.budget.kv_budget.has_value() && !request.budget.weights.has_value()) {
    answer.notes.emplace_back(
        "layers are like its own in turn, and its estimated weights grow in proportion");
  }
  add_reliefs(
      request, registry,
      {ChangeKind::kSetting, ChangeKind::kFormat, ChangeKind::kDraftFormat, ChangeKind::kFewer,
       ChangeKind::kShorter, ChangeKind::kTensor, ChangeKind::kPipeline, ChangeKind::kData},
      [&](const Change& change) -> std::optional<Outcome> {
        const std::int64_t most = most_layers(change.request, registry);
        return most > 0 ? std::optional{Outcome{.value = most}} : std::nullopt;
      },
      [](std::int64_t a, std::int64_t b) { return a > b; }, answer);
  return answer;
}

Result<Answer> solve_num_draft_tokens(const PlanRequest& request,
                                      const CapabilityRegistry& registry) {
  if (!request.drafter.has_value()) {
    return no_drafter();
  }
  if (auto plan = make_plan(request, registry); !plan) {
    return std::move(plan).error();
  }
  PlanRequest probe = request;
  const auto with_tokens = [&probe](std::int64_t tokens) -> PlanRequest& {
    probe.drafter->num_draft_tokens = Tokens{tokens};
    return probe;
  };
  Answer answer{.question = Question::kNumDraftTokens, .unit = "tokens", .request = request};
  answer.value = most_that(
      kMostDraftTokens, [&](std::int64_t tokens) { return fits(with_tokens(tokens), registry); });
  answer.found = answer.value > 0;
  if (answer.value < kMostDraftTokens) {
    answer.beyond = with_tokens(answer.value + 1);
    answer.binding = binding_of(*answer.beyond, registry);
  } else {
    answer.binding = {
        .id = "search_limit",
        .what = fmt::format("more than {} draft tokens are not looked for", kMostDraftTokens)};
  }
  add_reliefs(
      request, registry,
      {ChangeKind::kSetting, ChangeKind::kFormat, ChangeKind::kDraftFormat, ChangeKind::kFewer,
       ChangeKind::kShorter, ChangeKind::kTensor, ChangeKind::kPipeline, ChangeKind::kData},
      [&](const Change& change) -> std::optional<Outcome> {
        PlanRequest changed = change.request;
        const std::int64_t most = most_that(kMostDraftTokens, [&](std::int64_t tokens) {
          changed.drafter->num_draft_tokens = Tokens{tokens};
          return fits(changed, registry);
        });
        return most > 0 ? std::optional{Outcome{.value = most}} : std::nullopt;
      },
      [](std::int64_t a, std::int64_t b) { return a > b; }, answer);
  if (!answer.found) {
    return answer;
  }
  answer.request = with_tokens(answer.value);
  answer.options = fmt::format("--num-draft-tokens {}", answer.value);
  const auto rows_at = [&](std::int64_t tokens) {
    const auto plan = plan_of(with_tokens(tokens), registry);
    return plan.has_value() ? running_draft_rows(*plan) : std::vector<std::string>{};
  };
  const std::vector<std::string> all = rows_at(1);
  const std::int64_t fast = most_that(
      answer.value, [&](std::int64_t tokens) { return rows_lost(all, rows_at(tokens)).empty(); });
  answer.figures.push_back({"fast_path", fast, "tokens"});
  if (fast < answer.value) {
    const auto lost = rows_lost(all, rows_at(fast + 1));
    answer.notes.push_back(fmt::format("from {} tokens on {} no longer run{}", fast + 1,
                                       fmt::join(lost, ", "), lost.size() == 1 ? "s" : ""));
  }
  return answer;
}

}  // namespace kvpool
