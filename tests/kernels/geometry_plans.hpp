// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Small plans that between them have every layout, element type and kind of cache.
#pragma once

#include <kvpool/kernels/validate_geometry.hpp>
#include <kvpool/plan/planner.hpp>

#include "support/catch.hpp"
#include "support/models.hpp"

#include <set>
#include <string>
#include <vector>

namespace kvpool::test {

struct GeometryPlan {
  std::string name;
  PlanRequest request;
  /// Methods that its caches call for.
  std::set<kernels::GeometryMethod> methods;
};

/// A request for one short sequence; pages of 64 tokens.
inline PlanRequest small_request(ModelConfig model, std::int64_t megabytes) {
  PlanRequest request{.target = std::move(model)};
  request.granularity = Bytes{2 << 20};
  request.budget.kv_budget = Bytes{megabytes << 20};
  request.workload.max_num_seqs = Sequences{1};
  request.workload.max_model_len = Tokens{128};
  request.workload.max_batched_tokens = Tokens{64};
  request.tokens_per_block = Tokens{64};
  return request;
}

inline std::vector<GeometryPlan> geometry_plans() {
  using kernels::GeometryMethod;
  const std::set both{GeometryMethod::kKernels, GeometryMethod::kBytes};
  const std::set kernels{GeometryMethod::kKernels};
  const std::set bytes{GeometryMethod::kBytes};
  const AttentionCache wide{
      .query_heads = Heads{8}, .kv_heads = Heads{2}, .key_dim = 192, .value_dim = 128};
  const AttentionCache plain{
      .query_heads = Heads{8}, .kv_heads = Heads{4}, .key_dim = 64, .value_dim = 64};
  const LatentCache latent{.query_heads = Heads{16}, .latent_dim = 512, .rope_dim = 64};
  std::vector<GeometryPlan> plans;

  // First: a target with a drafter of another page size.
  GeometryPlan pair{"target and draft", small_request(uniform_model(3, {plain}), 64), kernels};
  pair.request.tokens_per_block = Tokens{128};
  pair.request.drafter = DrafterRequest{.kind = DrafterKind::kDspark, .model = dspark_gqa(16, 4)};
  plans.push_back(pair);
  for (const RowOrder rows : {RowOrder::kHnd, RowOrder::kNhd}) {
    for (const PageOrder pages : {PageOrder::kPageMajor, PageOrder::kLayerMajor}) {
      GeometryPlan one{"layouts", small_request(uniform_model(3, {plain}), 32), kernels};
      one.request.layout = {.pages = pages, .rows = rows};
      plans.push_back(one);
      GeometryPlan unequal{"K and V of unequal width", small_request(uniform_model(2, {wide}), 32),
                           kernels};
      unequal.request.layout = {.pages = pages, .rows = rows};
      plans.push_back(unequal);
    }
  }
  for (const KvDtype dtype : {KvDtype::kFp16, KvDtype::kFp32}) {
    GeometryPlan one{"element types", small_request(uniform_model(2, {plain}), 32), kernels};
    one.request.kv_dtype = dtype;
    plans.push_back(one);
  }
  GeometryPlan fp8{"fp8", small_request(uniform_model(2, {plain}), 32), bytes};
  fp8.request.kv_dtype = KvDtype::kFp8E4m3;
  plans.push_back(fp8);
  plans.push_back({"latent", small_request(uniform_model(3, {latent}), 32), kernels});
  GeometryPlan records{"records", small_request(uniform_model(2, {latent}), 32), bytes};
  records.request.kv_dtype = KvDtype::kFp8DsMla;
  plans.push_back(records);
  plans.push_back({"groups", small_request(full_and_windows(2, 3, 2), 64), kernels});
  ModelConfig hybrid = kimi_k3();
  hybrid.layers.resize(8);
  GeometryPlan states{"states", small_request(hybrid, 512), both};
  states.request.parallelism.tensor = 8;
  states.request.workload.max_num_seqs = Sequences{3};
  plans.push_back(states);
  return plans;
}

/// The plan of a sample; it has to have pools.
inline Plan planned(const GeometryPlan& sample) {
  const auto plan = make_plan(sample.request, CapabilityRegistry::with_known_kernels());
  if (!plan.has_value()) {
    FAIL(sample.name << ": " << to_string(plan.error()));
  }
  if (plan->smallest() == nullptr) {
    FAIL(sample.name << ": "
                     << (plan->refusals.empty() ? "no pools" : plan->refusals.front().what));
  }
  return *plan;
}

}  // namespace kvpool::test
