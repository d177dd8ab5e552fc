// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "plan/stage_pools.hpp"

#include <kvpool/plan/memory_budget.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvpool {
namespace {

/// Everything about a model that becomes pools on one stage.
struct ModelSlice {
  PoolRole role = PoolRole::kTarget;
  std::string name;
  std::vector<LayerGeometry> layers;
  Tokens tokens_per_block{};
  Tokens max_len{};
  Tokens lookahead{};
};

PoolShape shape_of(const PlanRequest& request, const ModelSlice& slice, std::string name,
                   std::vector<LayerGroup> groups) {
  return {.name = std::move(name),
          .role = slice.role,
          .groups = std::move(groups),
          .tokens_per_block = slice.tokens_per_block,
          .layout = request.layout,
          .granularity = granularity_of(request),
          .reserved_slabs = Slabs{request.reserved_pages}};
}

Decision separate_pools(const ModelSlice& slice, const std::string& why) {
  return {
      .id = "separate_group_pools",
      .pool = slice.name,
      .chosen = "a pool per layer group",
      .instead_of = "one pool of shared slabs",
      .reason = why,
      .cost = {
          .value = 0, .unit = "", .conditions = "pages do not move between groups at run time"}};
}

/// The pool that takes what the others leave: the one with full attention, else the last.
void choose_main(ModelPools& model) {
  for (std::size_t pool = 0; pool < model.pools.size(); ++pool) {
    for (std::size_t group = 0; group < model.pools[pool].groups.size(); ++group) {
      if (model.grows) {
        return;
      }
      const Span span = model.pools[pool].groups[group].group.span;
      model.main_pool = pool;
      model.main_group = group;
      model.grows = span.kind == SpanKind::kFull;
    }
  }
}

Result<void> add_model(const PlanRequest& request, ModelSlice slice, StagePools& stage,
                       std::optional<ModelPools>& model) {
  std::vector<LayerGroup> groups = group_layers(slice.layers);
  if (!groups.empty() && groups.back().is_state) {
    ModelSlice state = slice;
    state.role = PoolRole::kState;
    auto pool = describe_pool(shape_of(request, state,
                                       slice.role == PoolRole::kDraft ? "draft_state" : "state",
                                       {std::move(groups.back())}));
    if (!pool) {
      return std::move(pool).error();
    }
    stage.states.push_back(*std::move(pool));
    groups.pop_back();
  }
  if (groups.empty()) {
    return {};
  }
  model = ModelPools{.max_len = slice.max_len, .lookahead = slice.lookahead};
  auto shared = describe_pool(shape_of(request, slice, slice.name, groups));
  if (shared.has_value()) {
    model->pools.push_back(*std::move(shared));
  } else if (groups.size() == 1) {
    return std::move(shared).error();
  } else {
    stage.decisions.push_back(separate_pools(slice, shared.error().message));
    for (LayerGroup& group : groups) {
      const std::string name = fmt::format("{}/{}", slice.name, group_name(group));
      auto own = describe_pool(shape_of(request, slice, name, {std::move(group)}));
      if (!own) {
        return std::move(own).error();
      }
      model->pools.push_back(*std::move(own));
    }
  }
  choose_main(*model);
  return {};
}

/// Copies of the target's next-token layer, numbered behind the target's own layers.
std::vector<ModelLayer> mtp_layers(const ModelConfig& target) {
  std::vector<ModelLayer> layers;
  for (std::int64_t i = 0; i < target.mtp_layers.count(); ++i) {
    const auto index = static_cast<std::int64_t>(target.layers.size()) + i;
    layers.push_back(
        {.index = LayerIndex{static_cast<std::int32_t>(index)}, .caches = target.mtp_layer});
  }
  return layers;
}

template <typename Layers>
std::span<const ModelLayer> slice_of(const Layers& layers, StageLayers part) {
  return std::span<const ModelLayer>{layers}.subspan(static_cast<std::size_t>(part.first),
                                                     static_cast<std::size_t>(part.count));
}

/// The drafter's layers on one stage.
std::vector<ModelLayer> draft_layers(const PlanRequest& request, const Resolution& resolution,
                                     std::int64_t stage) {
  if (!request.drafter.has_value() || resolution.draft_pool == DraftPoolKind::kNone ||
      resolution.draft_pool == DraftPoolKind::kPrivateArena) {
    return {};
  }
  const DrafterRequest& drafter = *request.drafter;
  std::vector<ModelLayer> all =
      drafter.model.has_value() ? drafter.model->layers : mtp_layers(request.target);
  if (drafter.model.has_value() && resolution.draft_pool == DraftPoolKind::kTargetLayers) {
    // In one pool with the target's layers: numbered behind them.
    const auto behind = static_cast<std::int32_t>(request.target.layers.size());
    for (ModelLayer& layer : all) {
      layer.index = LayerIndex{layer.index.value() + behind};
    }
  }
  const std::int64_t stages = request.parallelism.pipeline;
  if (runs_on_last_stage_only(drafter.kind)) {
    return stage == stages - 1 ? all : std::vector<ModelLayer>{};
  }
  const StageLayers part = stage_layers(static_cast<std::int64_t>(all.size()), stages, stage);
  const auto slice = slice_of(all, part);
  return {slice.begin(), slice.end()};
}

Result<StagePools> describe_stage(const PlanRequest& request, const Resolution& resolution,
                                  std::int64_t index) {
  StagePools stage{.stage = index, .rank = index * request.parallelism.tensor};
  const auto part = stage_layers(static_cast<std::int64_t>(request.target.layers.size()),
                                 request.parallelism.pipeline, index);
  auto target = layer_geometry(slice_of(request.target.layers, part), request.parallelism,
                               resolution.target_formats);
  if (!target) {
    return std::move(target).error();
  }
  auto draft = layer_geometry(draft_layers(request, resolution, index), request.parallelism,
                              resolution.draft_formats);
  if (!draft) {
    return std::move(draft).error();
  }
  if (resolution.draft_pool == DraftPoolKind::kTargetLayers) {
    target->insert(target->end(), draft->begin(), draft->end());
    draft->clear();
  }
  if (auto added = add_model(request,
                             {.role = PoolRole::kTarget,
                              .name = "target",
                              .layers = *std::move(target),
                              .tokens_per_block = resolution.target_page,
                              .max_len = resolution.max_model_len,
                              .lookahead = resolution.draft_tokens},
                             stage, stage.target);
      !added) {
    return std::move(added).error();
  }
  if (auto added = add_model(request,
                             {.role = PoolRole::kDraft,
                              .name = "draft",
                              .layers = *std::move(draft),
                              .tokens_per_block = resolution.draft_page.value_or(Tokens{1}),
                              .max_len = resolution.draft_max_len,
                              .lookahead = resolution.draft_tokens},
                             stage, stage.draft);
      !added) {
    return std::move(added).error();
  }
  return stage;
}

}  // namespace

Bytes granularity_of(const PlanRequest& request) {
  constexpr Bytes kDefaultGranularity{2 << 20};
  if (request.granularity.has_value()) {
    return *request.granularity;
  }
  return request.device.has_value() ? request.device->granularity : kDefaultGranularity;
}

Result<std::vector<StagePools>> describe_stages(const PlanRequest& request,
                                                const Resolution& resolution) {
  std::vector<StagePools> stages;
  for (std::int64_t stage = 0; stage < request.parallelism.pipeline; ++stage) {
    auto described = describe_stage(request, resolution, stage);
    if (!described) {
      return std::move(described).error();
    }
    stages.push_back(*std::move(described));
  }
  return stages;
}

}  // namespace kvpool
