// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/cuda_queue.hpp>
#include <kvpool/cuda/device_memory.hpp>
#include <kvpool/cuda/gpu_info.hpp>
#include <kvpool/cuda/pinned_memory.hpp>
#include <kvpool/kernels/cuda.hpp>
#include <kvpool/kernels/table_update.hpp>
#include <kvpool/kernels/workspace_cuda.hpp>

#include "backend.hpp"
#include "cache_layers.hpp"
#include "model_kernels.hpp"
#include "packed_plans.hpp"
#include "places.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace example {
namespace {

using kvpool::Bytes;
using kvpool::Result;
namespace kernels = kvpool::kernels;

/// Page copies of one launch.
constexpr std::int64_t kPairs = 256;

Result<void> checked(const char* what, cudaError_t status) {
  if (status == cudaSuccess) {
    return {};
  }
  return kvpool::Error{.code = kvpool::ErrorCode::kDevice,
                       .message = std::string{what} + ": " + cudaGetErrorString(status)};
}

/// Weights on the device.
struct DeviceLayer {
  const float* attention_norm = nullptr;
  const float* query = nullptr;
  const float* key = nullptr;
  const float* value = nullptr;
  const float* output = nullptr;
  const float* mlp_norm = nullptr;
  const float* gate = nullptr;
  const float* up = nullptr;
  const float* down = nullptr;
};

struct DeviceModel {
  std::vector<DeviceLayer> layers{};
  const float* embedding = nullptr;
  const float* final_norm = nullptr;
  const float* head = nullptr;
};

/// Everything that passes write, in one piece of memory.
struct Buffers {
  std::uintptr_t arrays = 0;  ///< of the step, as the host wrote them
  float* x = nullptr;         ///< [tokens, hidden] hidden states
  float* normed = nullptr;
  float* query = nullptr;
  float* key = nullptr;
  float* value = nullptr;
  float* seen = nullptr;
  float* gate = nullptr;
  float* up = nullptr;
  float* logits = nullptr;
  std::uint16_t* query_bits = nullptr;  ///< bf16, as kvpool's kernels take them
  std::uint16_t* key_bits = nullptr;
  std::uint16_t* value_bits = nullptr;
  std::uint16_t* seen_bits = nullptr;
  gpu::PassTokens drafts{};
  gpu::PassTokens blocks{};
  std::int32_t* best = nullptr;
  std::int32_t* drafted = nullptr;
  std::int32_t* proposed = nullptr;
  kernels::PageCopyPair* pairs = nullptr;
  std::uintptr_t packed = 0;
};

/// What passes return, in pinned memory.
struct Results {
  std::uintptr_t arrays = 0;
  std::int32_t* best = nullptr;
  std::int32_t* drafted = nullptr;
  std::int32_t* proposed = nullptr;
  kernels::PageCopyPair* pairs = nullptr;
};

/// A pass of one model over tokens on the device.
struct Pass {
  PassKind kind = PassKind::kExtend;
  const std::int32_t* tokens = nullptr;
  const std::int32_t* positions = nullptr;
  QueryRows rows{};
  /// Slots of a group: [tokens] from `slots + group * slot_stride`.
  const std::int64_t* slots = nullptr;
  std::int64_t slot_stride = 0;
};

/// Calls that enqueue something, the first failure of which is kept.
class Launches {
 public:
  void operator()(const char* what, cudaError_t status) { keep(checked(what, status)); }
  void operator()(Result<void> result) { keep(std::move(result)); }
  [[nodiscard]] Result<void> result() const { return result_; }

 private:
  void keep(Result<void> result) {
    if (result_.has_value() && !result.has_value()) {
      result_ = std::move(result);
    }
  }

  Result<void> result_;
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(kvpool::CudaQueue queue, kvpool::DeviceMemory device, kvpool::PinnedMemory pinned,
              std::int32_t multiprocessors)
      : queue_{std::move(queue)},
        device_{std::move(device)},
        pinned_{std::move(pinned)},
        multiprocessors_{multiprocessors},
        weights_{kernels::stream_workspace(device_, queue_.stream())},
        scratch_{kernels::stream_workspace(device_, queue_.stream())},
        results_memory_{kernels::stream_workspace(pinned_, queue_.stream())} {}
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;
  ~CudaBackend() override {
    static_cast<void>(drain());
    if (executable_ != nullptr) {
      static_cast<void>(cudaGraphExecDestroy(executable_));
    }
  }

  [[nodiscard]] std::string name() const override { return "cuda"; }
  [[nodiscard]] BackendMemory memory() const override {
    return {.pools = device_,
            .tables = device_,
            .staging = pinned_,
            .queue = queue_,
            .apply = kvpool::TableApply::kByKernel};
  }
  [[nodiscard]] std::uintptr_t arrays() const override { return results_.arrays; }
  [[nodiscard]] GraphUse graph() const override { return graph_use_; }

  Result<void> set_up(const BackendSetup& setup) override;

  void poison(std::uintptr_t address, Bytes bytes) noexcept override {
    // In the order of the stream: what the page was read by has been enqueued before.
    launches_("poison", cudaMemsetAsync(reinterpret_cast<void*>(address),  // NOLINT: of a pool
                                        kvpool::kPoisonByte,
                                        static_cast<std::size_t>(bytes.count()), stream()));
  }

  Result<void> copy_pages(const kvpool::CacheGroup& group,
                          std::span<const kernels::PageCopyPair> pairs) override;

  Result<void> apply_tables(const kvpool::TableUpdate& update) override {
    return kernels::apply_table_deltas(kernels::table_delta_params(update), queue_.stream());
  }

  Result<Extended> extend(std::int32_t tokens, std::int32_t most) override;
  Result<Verified> speculate() override;

 private:
  [[nodiscard]] cudaStream_t stream() const {
    return static_cast<cudaStream_t>(queue_.stream().value);
  }
  Result<void> drain() {
    const auto ticket = queue_.record();
    return ticket ? queue_.wait(*ticket) : ticket.error();
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    launches_("copy", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream()));
  }
  /// The first failure since the last call.
  Result<void> finish() { return std::exchange(launches_, {}).result(); }

  Result<void> upload(const Models& models, const RopeTable& rope);
  [[nodiscard]] Buffers place(Places& places) const;
  [[nodiscard]] Results place_results(Places& places) const;
  Result<void> capture();
  void enqueue_block();
  void draft(const BlockArrays& block);
  void run_target(const Pass& pass);
  void run_layers(const DeviceModel& model, const std::vector<CacheLayer>& layers,
                  const Pass& pass);
  void make_plans(const std::vector<CacheLayer>& layers, const Pass& pass);
  void write_cache(const DeviceLayer& weights, const CacheLayer& layer, const Pass& pass);
  void attend(const DeviceLayer& weights, const CacheLayer& layer, const Pass& pass);
  [[nodiscard]] Result<kernels::AttentionParams> params_of(const CacheLayer& layer,
                                                           const Pass& pass) const;
  void multiply(const float* x, const float* matrix, float* y, int count, int in, int out,
                bool adds = false) {
    launches_("multiply", gpu::multiply(x, matrix, y, count, in, out, adds, stream()));
  }
  void norm(const float* factors, int count) {
    launches_("norm",
              gpu::norm(buffers_.x, factors, buffers_.normed, count, shape_.hidden, stream()));
  }

  kvpool::CudaQueue queue_;
  kvpool::DeviceMemory device_;
  kvpool::PinnedMemory pinned_;
  std::int32_t multiprocessors_;
  // kvpool's workspaces refuse to grow while the stream is captured.
  kernels::Workspace weights_;
  kernels::Workspace scratch_;
  kernels::Workspace results_memory_;
  BackendSetup setup_;
  ModelShape shape_;
  std::vector<CacheLayer> target_layers_;
  std::vector<CacheLayer> draft_layers_;
  DeviceModel target_;
  DeviceModel drafter_;
  const float* cosine_ = nullptr;
  const float* sine_ = nullptr;
  std::optional<PackedPlans> packed_;
  Bytes scratch_bytes_{};
  Buffers buffers_;
  Results results_;
  Launches launches_;
  bool is_warm_ = false;
  cudaGraphExec_t executable_ = nullptr;
  GraphUse graph_use_;
};

Result<void> CudaBackend::set_up(const BackendSetup& setup) {
  setup_ = setup;
  shape_ = setup.models->target.shape;
  for (const bool of_drafter : {false, true}) {
    auto layers = cache_layers(*setup.pools, setup.manager->groups(), of_drafter);
    if (!layers) {
      return std::move(layers).error();
    }
    (of_drafter ? draft_layers_ : target_layers_) = *std::move(layers);
  }
  auto packed = PackedPlans::create(
      shape_, setup.layout.rows(), setup.layout.capacity() / setup.layout.rows(), multiprocessors_);
  if (!packed) {
    return std::move(packed).error();
  }
  packed_ = *std::move(packed);

  // All that passes of the largest step take, before anything is captured.
  Places sizes{0};
  static_cast<void>(place(sizes));
  scratch_bytes_ = Bytes{static_cast<std::int64_t>(sizes.next())};
  const auto scratch = scratch_.require(scratch_bytes_);
  if (!scratch) {
    return scratch.error();
  }
  Places places{scratch->address};
  buffers_ = place(places);
  packed_->place(buffers_.packed);
  Places result_sizes{0};
  static_cast<void>(place_results(result_sizes));
  const auto results =
      results_memory_.require(Bytes{static_cast<std::int64_t>(result_sizes.next())});
  if (!results) {
    return results.error();
  }
  Places result_places{results->address};
  results_ = place_results(result_places);
  // Counters of packed attention are zero before the first launch, and after each.
  if (auto zeroed = queue_.fill_async(packed_->counters(), 0, packed_->counter_bytes()); !zeroed) {
    return zeroed;
  }
  return upload(*setup.models, make_rope_table(shape_.head_dim, setup.max_length));
}

Result<void> CudaBackend::upload(const Models& models, const RopeTable& rope) {
  // Where each vector goes; the pointers are filled in when there is memory.
  std::vector<std::pair<const std::vector<float>*, const float**>> parts;
  for (const auto& [model, device] :
       {std::pair{&models.target, &target_}, std::pair{&models.drafter, &drafter_}}) {
    device->layers.resize(model->layers.size());
    for (std::size_t i = 0; i < model->layers.size(); ++i) {
      const LayerWeights& from = model->layers[i];
      DeviceLayer& to = device->layers[i];
      parts.insert(parts.end(), {{&from.attention_norm, &to.attention_norm},
                                 {&from.query, &to.query},
                                 {&from.key, &to.key},
                                 {&from.value, &to.value},
                                 {&from.output, &to.output},
                                 {&from.mlp_norm, &to.mlp_norm},
                                 {&from.gate, &to.gate},
                                 {&from.up, &to.up},
                                 {&from.down, &to.down}});
    }
    parts.emplace_back(&model->final_norm, &device->final_norm);
  }
  parts.emplace_back(&models.target.embedding, &target_.embedding);
  parts.emplace_back(&models.target.head, &target_.head);
  parts.emplace_back(&rope.cosine, &cosine_);
  parts.emplace_back(&rope.sine, &sine_);

  Places sizes{0};
  for (const auto& [numbers, pointer] : parts) {
    sizes.take<float>(static_cast<std::int64_t>(numbers->size()));
  }
  const auto memory = weights_.require(Bytes{static_cast<std::int64_t>(sizes.next())});
  if (!memory) {
    return memory.error();
  }
  Places places{memory->address};
  for (const auto& [numbers, pointer] : parts) {
    float* const place = places.take<float>(static_cast<std::int64_t>(numbers->size()));
    copy(place, numbers->data(), numbers->size() * sizeof(float));
    *pointer = place;
  }
  drafter_.embedding = target_.embedding;
  drafter_.head = target_.head;
  if (auto copied = finish(); !copied) {
    return copied;
  }
  return drain();
}

Buffers CudaBackend::place(Places& places) const {
  const std::int64_t rows = setup_.layout.rows();
  const std::int64_t groups = setup_.layout.groups();
  const std::int64_t tokens = std::max(setup_.layout.capacity(), rows * kBlock);
  Buffers buffers;
  buffers.arrays = kvpool::address_of(places.take<std::byte>(setup_.layout.bytes()));
  for (auto [array, width] : {std::pair{&buffers.x, shape_.hidden},
                              {&buffers.normed, shape_.hidden},
                              {&buffers.query, shape_.query_width()},
                              {&buffers.key, shape_.kv_width()},
                              {&buffers.value, shape_.kv_width()},
                              {&buffers.seen, shape_.query_width()},
                              {&buffers.gate, shape_.mlp},
                              {&buffers.up, shape_.mlp},
                              {&buffers.logits, shape_.vocabulary}}) {
    *array = places.take<float>(tokens * width);
  }
  buffers.query_bits = places.take<std::uint16_t>(tokens * shape_.query_width());
  buffers.key_bits = places.take<std::uint16_t>(tokens * shape_.kv_width());
  buffers.value_bits = places.take<std::uint16_t>(tokens * shape_.kv_width());
  buffers.seen_bits = places.take<std::uint16_t>(tokens * shape_.query_width());
  for (auto [pass, length] : {std::pair{&buffers.drafts, kDrafts}, {&buffers.blocks, kBlock}}) {
    pass->tokens = places.take<std::int32_t>(rows * length);
    pass->positions = places.take<std::int32_t>(rows * length);
    pass->slots = places.take<std::int64_t>(groups * rows * length);
  }
  buffers.best = places.take<std::int32_t>(tokens);
  buffers.drafted = places.take<std::int32_t>(rows * kDrafts);
  buffers.proposed = places.take<std::int32_t>(rows * kDrafts);
  buffers.pairs = places.take<kernels::PageCopyPair>(kPairs);
  buffers.packed = kvpool::address_of(places.take<std::byte>(packed_->bytes().count()));
  return buffers;
}

Results CudaBackend::place_results(Places& places) const {
  const std::int64_t rows = setup_.layout.rows();
  Results results;
  results.arrays = kvpool::address_of(places.take<std::byte>(setup_.layout.bytes()));
  results.best = places.take<std::int32_t>(std::max(setup_.layout.capacity(), rows * kBlock));
  results.drafted = places.take<std::int32_t>(rows * kDrafts);
  results.proposed = places.take<std::int32_t>(rows * kDrafts);
  results.pairs = places.take<kernels::PageCopyPair>(kPairs);
  return results;
}

Result<void> CudaBackend::copy_pages(const kvpool::CacheGroup& group,
                                     std::span<const kernels::PageCopyPair> pairs) {
  while (!pairs.empty()) {
    const std::size_t count = std::min<std::size_t>(pairs.size(), kPairs);
    std::ranges::copy(pairs.first(count), results_.pairs);
    copy(buffers_.pairs, results_.pairs, count * sizeof(kernels::PageCopyPair));
    launches_(kernels::copy_pages(
        copy_params(*setup_.pools, group, buffers_.pairs, static_cast<std::int32_t>(count)),
        queue_.stream()));
    // The list is written again for the next group; copies are rare.
    launches_(drain());
    pairs = pairs.subspan(count);
  }
  return finish();
}

Result<Extended> CudaBackend::extend(std::int32_t tokens, std::int32_t most) {
  copy(reinterpret_cast<void*>(buffers_.arrays),        // NOLINT: of the device
       reinterpret_cast<const void*>(results_.arrays),  // NOLINT: of pinned memory
       static_cast<std::size_t>(setup_.layout.bytes()));
  const ExtendArrays arrays = setup_.layout.extend(buffers_.arrays);
  run_target({.kind = PassKind::kExtend,
              .tokens = arrays.tokens,
              .positions = arrays.positions,
              .rows = {.tokens = tokens,
                       .most = most,
                       .q_indptr = arrays.q_indptr,
                       .lengths = arrays.lengths},
              .slots = arrays.slots,
              .slot_stride = setup_.layout.capacity()});
  copy(results_.best, buffers_.best, static_cast<std::size_t>(tokens) * sizeof(std::int32_t));
  launches_(drain());
  if (auto done = finish(); !done) {
    return std::move(done).error();
  }
  return Extended{.best = {results_.best, results_.best + tokens}};
}

Result<Verified> CudaBackend::speculate() {
  if (!is_warm_) {
    // Kernels are loaded when they are first launched, and loading takes memory.
    enqueue_block();
    is_warm_ = true;
  } else {
    if (executable_ == nullptr) {
      if (auto captured = capture(); !captured) {
        return std::move(captured).error();
      }
    }
    // Lengths, tables and tokens are read when the graph runs: it is the same for every step.
    launches_("replay", cudaGraphLaunch(executable_, stream()));
    ++graph_use_.replays;
  }
  launches_(drain());
  if (auto done = finish(); !done) {
    return std::move(done).error();
  }
  const auto drafts = static_cast<std::ptrdiff_t>(setup_.layout.rows() * kDrafts);
  const auto block = static_cast<std::ptrdiff_t>(setup_.layout.rows() * kBlock);
  return Verified{.drafted = {results_.drafted, results_.drafted + drafts},
                  .proposed = {results_.proposed, results_.proposed + drafts},
                  .best = {results_.best, results_.best + block}};
}

Result<void> CudaBackend::capture() {
  if (auto done = drain(); !done) {
    return done;
  }
  const auto free_before = kvpool::gpu_free_bytes(0);
  const Bytes held_before = device_.held() + pinned_.held();
  // In this mode a call that allocates, from whatever thread, fails and ends the capture.
  if (auto begun = checked("begin of capture",
                           cudaStreamBeginCapture(stream(), cudaStreamCaptureModeGlobal));
      !begun) {
    return begun;
  }
  enqueue_block();
  cudaGraph_t graph = nullptr;
  launches_("end of capture", cudaStreamEndCapture(stream(), &graph));
  const auto free_after = kvpool::gpu_free_bytes(0);
  if (!free_before || !free_after) {
    launches_("free memory", cudaErrorUnknown);
  } else {
    graph_use_.taken = *free_before - *free_after;
    graph_use_.held = device_.held() + pinned_.held() - held_before;
  }
  std::size_t count = 0;
  launches_("nodes", cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  launches_("nodes", cudaGraphGetNodes(graph, nodes.data(), &count));
  for (cudaGraphNode_t const node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    launches_("node", cudaGraphNodeGetType(node, &type));
    graph_use_.allocations += type == cudaGraphNodeTypeMemAlloc ? 1 : 0;
  }
  graph_use_.nodes = static_cast<std::int64_t>(count);
  ++graph_use_.captures;
  launches_("instantiate", cudaGraphInstantiate(&executable_, graph, 0));
  static_cast<void>(cudaGraphDestroy(graph));
  return finish();
}

void CudaBackend::enqueue_block() {
  // Law 9: it was sized before. Growing now would be an error.
  if (const auto scratch = scratch_.require(scratch_bytes_); !scratch) {
    launches_(Result<void>{scratch.error()});
    return;
  }
  copy(reinterpret_cast<void*>(buffers_.arrays),        // NOLINT: of the device
       reinterpret_cast<const void*>(results_.arrays),  // NOLINT: of pinned memory
       static_cast<std::size_t>(setup_.layout.bytes()));
  const BlockArrays block = setup_.layout.block(buffers_.arrays);
  const auto rows = static_cast<std::int32_t>(setup_.layout.rows());
  draft(block);
  launches_("blocks", gpu::make_blocks(block, buffers_.drafted, buffers_.proposed, buffers_.blocks,
                                       rows, stream()));
  run_target({.kind = PassKind::kVerify,
              .tokens = buffers_.blocks.tokens,
              .positions = buffers_.blocks.positions,
              .rows = {.tokens = rows * kBlock, .most = kBlock, .lengths = block.lengths},
              .slots = block.slots,
              .slot_stride = std::int64_t{rows} * kBlock});
  const auto drafts = static_cast<std::size_t>(rows * kDrafts) * sizeof(std::int32_t);
  copy(results_.drafted, buffers_.drafted, drafts);
  copy(results_.proposed, buffers_.proposed, drafts);
  copy(results_.best, buffers_.best,
       static_cast<std::size_t>(rows * kBlock) * sizeof(std::int32_t));
}

void CudaBackend::draft(const BlockArrays& block) {
  const auto rows = static_cast<std::int32_t>(setup_.layout.rows());
  const std::int32_t tokens = rows * kDrafts;
  launches_("drafts",
            gpu::make_drafts(block, buffers_.drafts, rows, static_cast<int>(setup_.layout.groups()),
                             shape_.vocabulary, stream()));
  run_layers(
      drafter_, draft_layers_,
      {.kind = PassKind::kDraft,
       .tokens = buffers_.drafts.tokens,
       .positions = buffers_.drafts.positions,
       .rows = {.tokens = tokens, .most = kDrafts, .lengths = block.draft_lengths, .causal = false},
       .slots = buffers_.drafts.slots,
       .slot_stride = tokens});
  norm(drafter_.final_norm, tokens);
  multiply(buffers_.normed, drafter_.head, buffers_.logits, tokens, shape_.hidden,
           shape_.vocabulary);
  launches_("largest",
            gpu::largest(buffers_.logits, buffers_.drafted, tokens, shape_.vocabulary, stream()));
}

void CudaBackend::run_target(const Pass& pass) {
  const std::int32_t tokens = pass.rows.tokens;
  run_layers(target_, target_layers_, pass);
  // What the hidden states leave in the drafter's cache.
  for (std::size_t i = 0; i < draft_layers_.size(); ++i) {
    norm(drafter_.layers[i].attention_norm, tokens);
    write_cache(drafter_.layers[i], draft_layers_[i], pass);
  }
  norm(target_.final_norm, tokens);
  multiply(buffers_.normed, target_.head, buffers_.logits, tokens, shape_.hidden,
           shape_.vocabulary);
  launches_("largest",
            gpu::largest(buffers_.logits, buffers_.best, tokens, shape_.vocabulary, stream()));
}

void CudaBackend::run_layers(const DeviceModel& model, const std::vector<CacheLayer>& layers,
                             const Pass& pass) {
  const std::int32_t tokens = pass.rows.tokens;
  launches_("embed",
            gpu::embed(model.embedding, pass.tokens, buffers_.x, tokens, shape_.hidden, stream()));
  make_plans(layers, pass);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const DeviceLayer& weights = model.layers[i];
    norm(weights.attention_norm, tokens);
    write_cache(weights, layers[i], pass);
    attend(weights, layers[i], pass);
    norm(weights.mlp_norm, tokens);
    multiply(buffers_.normed, weights.gate, buffers_.gate, tokens, shape_.hidden, shape_.mlp);
    multiply(buffers_.normed, weights.up, buffers_.up, tokens, shape_.hidden, shape_.mlp);
    launches_("gate",
              gpu::gate(buffers_.gate, buffers_.up, std::int64_t{tokens} * shape_.mlp, stream()));
    multiply(buffers_.gate, weights.down, buffers_.x, tokens, shape_.mlp, shape_.hidden, true);
  }
}

Result<kernels::AttentionParams> CudaBackend::params_of(const CacheLayer& layer,
                                                        const Pass& pass) const {
  const kvpool::PageTableView tables =
      setup_.tables->view(layer.group, setup_.pools->base(layer.pool));
  return packed_->with_plan(
      attention_params(layer, {.query = buffers_.query_bits, .out = buffers_.seen_bits}, tables,
                       pass.rows),
      pass.kind);
}

// One plan for all layers with the same window.
void CudaBackend::make_plans(const std::vector<CacheLayer>& layers, const Pass& pass) {
  for (auto layer = layers.begin(); layer != layers.end(); ++layer) {
    const bool is_planned = std::any_of(layers.begin(), layer, [&](const CacheLayer& earlier) {
      return earlier.window_left == layer->window_left;
    });
    if (is_planned) {
      continue;
    }
    const auto params = params_of(*layer, pass);
    launches_(params ? kernels::plan_packed_attention(kernels::packed_plan_params(*params),
                                                      queue_.stream())
                     : Result<void>{params.error()});
  }
}

void CudaBackend::write_cache(const DeviceLayer& weights, const CacheLayer& layer,
                              const Pass& pass) {
  const std::int32_t tokens = pass.rows.tokens;
  multiply(buffers_.normed, weights.key, buffers_.key, tokens, shape_.hidden, shape_.kv_width());
  multiply(buffers_.normed, weights.value, buffers_.value, tokens, shape_.hidden,
           shape_.kv_width());
  launches_("rotate", gpu::rotate(buffers_.key, {cosine_, sine_, pass.positions}, buffers_.key_bits,
                                  tokens, shape_.kv_heads, shape_.head_dim, stream()));
  launches_("round", gpu::rotate(buffers_.value, {}, buffers_.value_bits, tokens, shape_.kv_heads,
                                 shape_.head_dim, stream()));
  const std::int64_t* const slots = pass.slots + layer.group.value() * pass.slot_stride;
  launches_(kernels::append(
      append_params(layer, {.key = buffers_.key_bits, .value = buffers_.value_bits}, slots, tokens),
      queue_.stream()));
}

void CudaBackend::attend(const DeviceLayer& weights, const CacheLayer& layer, const Pass& pass) {
  const std::int32_t tokens = pass.rows.tokens;
  multiply(buffers_.normed, weights.query, buffers_.query, tokens, shape_.hidden,
           shape_.query_width());
  launches_("rotate",
            gpu::rotate(buffers_.query, {cosine_, sine_, pass.positions}, buffers_.query_bits,
                        tokens, shape_.query_heads, shape_.head_dim, stream()));
  const auto params = params_of(layer, pass);
  launches_(params ? kernels::packed_attention(*params, {}, queue_.stream())
                   : Result<void>{params.error()});
  launches_("widen", gpu::widen(buffers_.seen_bits, buffers_.seen,
                                std::int64_t{tokens} * shape_.query_width(), stream()));
  multiply(buffers_.seen, weights.output, buffers_.x, tokens, shape_.query_width(), shape_.hidden,
           true);
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend() {
  const auto gpus = kvpool::gpu_count();
  if (!gpus) {
    return gpus.error();
  }
  if (*gpus == 0) {
    return kvpool::Error{.code = kvpool::ErrorCode::kUnsupported,
                         .message = "this machine has no GPU, or no driver for it"};
  }
  const auto info = kvpool::gpu_info(0);
  auto queue = kvpool::CudaQueue::create(0);
  auto device = kvpool::DeviceMemory::create(0);
  auto pinned = kvpool::PinnedMemory::create(0);
  if (!info || !queue || !device || !pinned) {
    return !info     ? info.error()
           : !queue  ? queue.error()
           : !device ? device.error()
                     : pinned.error();
  }
  return std::unique_ptr<Backend>{std::make_unique<CudaBackend>(
      *std::move(queue), *std::move(device), *std::move(pinned), info->multiprocessors)};
}

}  // namespace example
