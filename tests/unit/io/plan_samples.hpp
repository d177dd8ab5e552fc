// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Requests whose plans differ in form: shared slabs, states, stages, drafters, too little memory,
// refusals. Written by hand, so that no config reader takes part.
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/plan/planner.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::test {

struct PlanSample {
  std::string name;
  PlanRequest request;
};

inline AttentionCache gqa(std::int64_t query_heads, std::int64_t kv_heads, std::int64_t dim,
                          Span span = {}) {
  return {.query_heads = Heads{query_heads},
          .kv_heads = Heads{kv_heads},
          .key_dim = dim,
          .value_dim = dim,
          .span = span};
}

inline ModelConfig model_of(std::string name, const std::vector<LayerCache>& layers) {
  ModelConfig model{};
  model.name = std::move(name);
  model.model_type = "sample";
  for (const LayerCache& cache : layers) {
    ModelLayer layer{};
    layer.index = LayerIndex{static_cast<std::int32_t>(model.layers.size())};
    layer.caches = {cache};
    model.layers.push_back(layer);
  }
  model.native_dtype = KvDtype::kBf16;
  model.max_positions = Tokens{65'536};
  model.query_heads = Heads{96};
  model.hidden_size = 7'168;
  return model;
}

/// 24 MLA and 69 recurrent layers, and a DSpark drafter of 5 layers with 96 and 16 heads.
inline PlanRequest hybrid_request() {
  const LatentCache latent{.query_heads = Heads{96}, .latent_dim = 512, .rope_dim = 64, .span = {}};
  StateCache state{};
  state.family = StateFamily::kKimiDelta;
  state.conv_channels = 36'864;
  state.conv_kernel = 4;
  state.matrix_elements = 1'572'864;
  state.heads = 96;
  std::vector<LayerCache> layers;
  layers.reserve(93);
  for (int i = 0; i < 93; ++i) {
    layers.push_back(i % 4 == 3 || i == 92 ? LayerCache{latent} : LayerCache{state});
  }
  PlanRequest request{};
  request.target = model_of("hybrid", layers);
  request.target.parameters.quantized = Elements{1'000'000'000'000};
  request.target.parameters.quantized_centibits = 425;
  request.target.parameters.basis = "a sample";
  DrafterRequest drafter{};
  drafter.kind = DrafterKind::kDspark;
  drafter.model = model_of("drafter", std::vector<LayerCache>(5, gqa(96, 16, 64)));
  drafter.model->drafter = DrafterTraits{
      .kind = DrafterKind::kDspark, .block_tokens = Tokens{8}, .target_layers = Layers{93}};
  request.drafter = std::move(drafter);
  request.parallelism.tensor = 16;
  request.device = find_device("gb200");
  request.workload.max_num_seqs = Sequences{8};
  return request;
}

/// Full and sliding-window layers that share slabs, and layers without a cache of their own.
inline PlanRequest windowed_request() {
  PlanRequest request{};
  request.target = model_of(
      "windowed",
      {gqa(8, 4, 128), gqa(8, 4, 128, {SpanKind::kSlidingWindow, Tokens{1'024}}),
       gqa(8, 4, 128, {SpanKind::kSlidingWindow, Tokens{1'024}}), gqa(8, 4, 128), gqa(8, 4, 128)});
  request.target.layers[3].caches.clear();
  request.target.layers[4].caches.clear();
  request.target.layers[4].shares_with = LayerIndex{0};
  request.budget.kv_budget = Bytes{std::int64_t{4} << 30};
  request.workload.max_model_len = Tokens{8'192};
  return request;
}

/// Two pipeline stages of unequal length.
inline PlanRequest staged_request() {
  PlanRequest request{};
  request.target = model_of("staged", std::vector<LayerCache>(7, gqa(32, 8, 128)));
  request.parallelism.pipeline = 2;
  request.parallelism.tensor = 2;
  request.budget.kv_budget = Bytes{std::int64_t{8} << 30};
  request.workload.max_model_len = Tokens{32'768};
  return request;
}

/// A next-token layer, an indexer, and every optional field of the request.
inline PlanRequest detailed_request() {
  PlanRequest request{};
  const LatentCache latent{
      .query_heads = Heads{128}, .latent_dim = 512, .rope_dim = 64, .span = {}};
  request.target = model_of("detailed \"\u00e9\" \\", std::vector<LayerCache>(3, latent));
  for (ModelLayer& layer : request.target.layers) {
    layer.caches.emplace_back(IndexerCache{.key_dim = 128});
  }
  request.target.mtp_layer = request.target.layers.front().caches;
  request.target.mtp_layers = Layers{1};
  request.target.architecture = "Sample";
  request.target.checkpoint_kv_dtype = KvDtype::kFp8E4m3;
  request.target.parameters = {.plain = Elements{1'000'000},
                               .quantized = Elements{2'000'000},
                               .quantized_centibits = 825,
                               .plain_bits = 16,
                               .attention = Bytes{1'500'000},
                               .routed_experts = Bytes{500'000},
                               .basis = "counted"};
  DrafterRequest drafter{};
  drafter.kind = DrafterKind::kMtp;
  drafter.num_draft_tokens = Tokens{3};
  request.drafter = drafter;
  request.parallelism.tensor = 4;
  request.parallelism.data = 2;
  request.parallelism.expert = 8;
  request.device = find_device("h200");
  request.budget = {.kv_budget = std::nullopt,
                    .gpu_memory = Bytes{std::int64_t{100} << 30},
                    .utilization_ppm = 900'000,
                    .weights = Bytes{std::int64_t{40} << 30},
                    .overhead = Bytes{std::int64_t{3} << 30}};
  request.workload = {.max_num_seqs = Sequences{16},
                      .max_model_len = Tokens{16'384},
                      .max_batched_tokens = Tokens{4'096},
                      .state_snapshots_per_seq = 2};
  request.kv_dtype = KvDtype::kBf16;
  request.tokens_per_block = Tokens{64};
  request.layout.rows = RowOrder::kNhd;
  request.reserved_pages = 2;
  request.granularity = Bytes{1 << 16};
  return request;
}

/// Weights of a checkpoint's files, an engine's overheads, another process on the GPU.
inline PlanRequest stored_request() {
  PlanRequest request = staged_request();
  request.target.weights = StoredWeights{
      .parts = {{WeightPlace::kEmbedding, 0, WeightSplit::kTensor, 1'000, 0, Bytes{64'000}},
                {WeightPlace::kLayer, 1, WeightSplit::kExperts, 8, 32, Bytes{4'096}},
                {WeightPlace::kNextToken, 9, WeightSplit::kUnsure, 0, 0, Bytes{7}}},
      .tied_embeddings = true,
      .stored = Bytes{68'200},
      .unused = Bytes{97},
      .tensors = 12,
      .files = 2,
      .unknown_names = {"model.odd"}};
  const Bytes gib{std::int64_t{1} << 30};
  request.budget = {.gpu_memory = 64 * gib,
                    .overheads = {.engine = "vllm",
                                  .version = "0.21",
                                  .activations = SizeRange{gib, 2 * gib, 3 * gib},
                                  .co_located = {{"other", {gib, gib, gib}}}}};
  return request;
}

/// Plans of every form. `does_not_fit` has pools, `no_room` not even those.
inline std::vector<PlanSample> plan_samples() {
  std::vector<PlanSample> samples{{"hybrid", hybrid_request()},
                                  {"windowed", windowed_request()},
                                  {"staged", staged_request()},
                                  {"detailed", detailed_request()},
                                  {"stored", stored_request()}};
  // A layer-major pool has one group.
  samples.push_back({"separate", windowed_request()});
  samples.back().request.layout.pages = PageOrder::kLayerMajor;
  samples.push_back({"does_not_fit", staged_request()});
  samples.back().request.budget.kv_budget = Bytes{std::int64_t{64} << 20};
  samples.push_back({"no_room", hybrid_request()});
  samples.back().request.budget.kv_budget = Bytes{1'000};
  samples.push_back({"refused", staged_request()});
  samples.back().request.kernel_set = KernelSet::kKvpool;
  samples.push_back({"refused_format", staged_request()});
  samples.back().request.kv_dtype = KvDtype::kFp8DsMla;
  samples.push_back({"refused_page", hybrid_request()});
  samples.back().request.drafter->tokens_per_block = Tokens{128};
  return samples;
}

inline Result<Plan> plan_sample(const PlanRequest& request) {
  return make_plan(request, CapabilityRegistry::with_known_kernels());
}

}  // namespace kvpool::test
