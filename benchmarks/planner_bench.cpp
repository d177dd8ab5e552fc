// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// A whole plan inside a process, from parsed configs: `make_plan` for Kimi-K3 with its DSpark
// drafter and for a plain model. The limit is 100 us.
#include <kvpool/plan/planner.hpp>

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/io/model_config_io.hpp>

#include <benchmark/benchmark.h>

#include <string>
#include <utility>

namespace kvpool {
namespace {

std::string config_path(const std::string& name) {
  return std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs/" + name + ".json";
}

PlanRequest plain_request() {
  PlanRequest request;
  request.target = io::read_model_config(config_path("llama-3.1-70b")).value();
  request.device = find_device("h200");
  request.parallelism.tensor = 4;
  return request;
}

PlanRequest drafted_request() {
  PlanRequest request;
  request.target = io::read_model_config(config_path("kimi-k3")).value();
  DrafterRequest drafter;
  drafter.kind = DrafterKind::kDspark;
  drafter.model = io::read_model_config(config_path("dspark-k3-96x16")).value();
  request.drafter = std::move(drafter);
  request.device = find_device("gb200");
  request.parallelism.tensor = 16;
  return request;
}

void make_plan_of(benchmark::State& state, const PlanRequest& request) {
  const CapabilityRegistry registry = CapabilityRegistry::with_known_kernels();
  for (auto _ : state) {
    Result<Plan> plan = make_plan(request, registry);
    if (!plan || !plan->fits) {
      state.SkipWithError("the plan does not fit");
      break;
    }
    benchmark::DoNotOptimize(plan);
  }
}

void plan_kimi_k3_with_dspark(benchmark::State& state) { make_plan_of(state, drafted_request()); }
BENCHMARK(plan_kimi_k3_with_dspark)->Unit(benchmark::kMicrosecond);

void plan_llama_70b(benchmark::State& state) { make_plan_of(state, plain_request()); }
BENCHMARK(plan_llama_70b)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvpool
