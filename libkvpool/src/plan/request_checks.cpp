// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "plan/request_checks.hpp"

#include <kvpool/core/checked.hpp>

#include "plan/overhead_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

namespace kvpool {
namespace {

constexpr std::int64_t kMostRanks = 1 << 16;
constexpr std::int64_t kLargestPage = 1 << 16;
constexpr std::int64_t kMostSequences = std::int64_t{1} << 31;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;
constexpr std::int64_t kMostDraftTokens = 1 << 16;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
constexpr std::int64_t kLargestGranule = std::int64_t{1} << 40;
constexpr std::int64_t kMillion = 1'000'000;
// Far beyond any model, and small enough for products of a few of them in 64 bits.
constexpr std::int64_t kMostHeads = 1 << 20;
constexpr std::int64_t kLargestDim = 1 << 24;
constexpr std::int64_t kMostStateElements = std::int64_t{1} << 40;
constexpr std::int64_t kMostLayers = 1 << 16;
constexpr std::int64_t kMostCoLocated = 1000;

/// Keeps the first number that is out of its range.
class RangeCheck {
 public:
  void in(std::string_view key, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (!error_.has_value() && (value < low || value > high)) {
      error_ = Error{.code = ErrorCode::kInvalidArgument,
                     .message = fmt::format("{} is {}, outside {} to {}", key, value, low, high),
                     .key = std::string{key},
                     .value = fmt::format("{}", value)};
    }
  }
  template <typename Quantity>
  void in(std::string_view key, const std::optional<Quantity>& value, std::int64_t low,
          std::int64_t high) {
    if (value.has_value()) {
      in(key, value->count(), low, high);
    }
  }
  void must(bool holds, std::string_view key, std::string_view message) {
    if (!error_.has_value() && !holds) {
      error_ = Error{.code = ErrorCode::kInvalidArgument,
                     .message = std::string{message},
                     .key = std::string{key}};
    }
  }
  [[nodiscard]] Result<void> take() && {
    if (error_.has_value()) {
      return *std::move(error_);
    }
    return {};
  }

 private:
  std::optional<Error> error_;
};

/// The figures of one cache, by the config keys that they usually come from.
class CacheCheck {
 public:
  explicit CacheCheck(RangeCheck& check) : check_{&check} {}

  void operator()(const AttentionCache& cache) const {
    check_->in("num_attention_heads", cache.query_heads.count(), 0, kMostHeads);
    check_->in("num_key_value_heads", cache.kv_heads.count(), 1, kMostHeads);
    check_->in("head_dim", cache.key_dim, 1, kLargestDim);
    check_->in("v_head_dim", cache.value_dim, 1, kLargestDim);
    span(cache.span);
  }
  void operator()(const LatentCache& cache) const {
    check_->in("num_attention_heads", cache.query_heads.count(), 0, kMostHeads);
    check_->in("kv_lora_rank", cache.latent_dim, 1, kLargestDim);
    check_->in("qk_rope_head_dim", cache.rope_dim, 0, kLargestDim);
    span(cache.span);
  }
  void operator()(const IndexerCache& cache) const {
    check_->in("index_head_dim", cache.key_dim, 1, kLargestDim);
  }
  void operator()(const StateCache& cache) const {
    check_->in("conv_channels", cache.conv_channels, 0, kMostStateElements);
    check_->in("conv_kernel", cache.conv_kernel, 1, kMostHeads);
    check_->in("state_elements", cache.matrix_elements, 0, kMostStateElements);
    check_->in("state_heads", cache.heads, 0, kMostHeads);
    check_->in("n_groups", cache.groups, 0, kMostHeads);
    check_->in("channels_per_group", cache.channels_per_group, 0, kLargestDim);
    check_->must(
        (CheckedInt{cache.groups} * cache.channels_per_group).saturated() <= cache.conv_channels,
        "n_groups", "the channels of the groups are more than all convolution channels");
  }

 private:
  void span(const Span& span) const {
    if (span.kind != SpanKind::kFull) {
      check_->in(to_string(span.kind), span.extent.count(), 1, kMostTokens);
    }
  }

  RangeCheck* check_;
};

void check_overheads(RangeCheck& check, const OverheadRequest& overheads) {
  const auto range = [&check](std::string_view key, const std::optional<SizeRange>& size) {
    if (size.has_value()) {
      check.in(key, size->low.count(), 0, kMostBytes);
      check.in(key, size->high.count(), 0, kMostBytes);
      check.must(size->low <= size->expected && size->expected <= size->high, key,
                 "the sizes of a range must ascend");
    }
  };
  range("activations", overheads.activations);
  range("cuda_context", overheads.cuda_context);
  range("cuda_graphs", overheads.cuda_graphs);
  range("communication", overheads.communication);
  for (const CoLocated& other : overheads.co_located) {
    check.must(!other.name.empty(), "co_located", "a process on the same GPU needs a name");
    range("co_located", other.size);
  }
  check.in("co_located", static_cast<std::int64_t>(overheads.co_located.size()), 0, kMostCoLocated);
  const auto engines = host_engines();
  check.must(
      overheads.engine.empty() || std::ranges::find(engines, overheads.engine) != engines.end(),
      "host_engine", "overheads are known of vllm, sglang and trtllm");
  check.must(is_version(overheads.version), "host_engine", "a version is written like 0.21.1");
}

/// A part of the weights belongs to a layer and has no negative numbers.
void check_weights(RangeCheck& check, const StoredWeights& weights) {
  check.in("weights", weights.stored.count(), 0, kMostBytes);
  for (const WeightPart& part : weights.parts) {
    check.in("weights", part.bytes.count(), 0, kMostBytes);
    check.in("weights", part.layer, 0, kMostBytes);
    check.in("weights", part.units, 0, kMostBytes);
    check.in("weights", part.inner_units, 0, kMostBytes);
  }
}

/// A model may be written by hand, so that nobody has looked at its figures yet.
void check_model(RangeCheck& check, const ModelConfig& model) {
  const CacheCheck check_cache{check};
  for (const ModelLayer& layer : model.layers) {
    for (const LayerCache& cache : layer.caches) {
      std::visit(check_cache, cache);
    }
  }
  for (const LayerCache& cache : model.mtp_layer) {
    std::visit(check_cache, cache);
  }
  if (model.weights.has_value()) {
    check_weights(check, *model.weights);
  }
  check.in("num_nextn_predict_layers", model.mtp_layers.count(), 0, kMostLayers);
  check.in("max_position_embeddings", model.max_positions, 1, kMostTokens);
}

void check_drafter(RangeCheck& check, const DrafterRequest& drafter) {
  check.in("num_draft_tokens", drafter.num_draft_tokens.count(), 0, kMostDraftTokens);
  check.in("draft_page_size", drafter.tokens_per_block, 1, kLargestPage);
  const bool needs_config = drafter.kind != DrafterKind::kMtp &&
                            drafter.kind != DrafterKind::kNgram &&
                            drafter.kind != DrafterKind::kSuffixAutomaton;
  check.must(!needs_config || drafter.model.has_value(), "drafter",
             "this kind of drafter has layers of its own: its config is needed");
  check.must(drafter.kind != DrafterKind::kMtp || !drafter.model.has_value(), "drafter",
             "MTP layers come with the target's own config: leave the drafter's config out");
}

}  // namespace

Result<void> check_request(const PlanRequest& request) {
  RangeCheck check;
  const Parallelism& p = request.parallelism;
  check.in("tensor_parallel_size", p.tensor, 1, kMostRanks);
  check.in("pipeline_parallel_size", p.pipeline, 1, kMostRanks);
  check.in("data_parallel_size", p.data, 1, kMostRanks);
  check.in("decode_context_parallel_size", p.decode_context, 1, kMostRanks);
  check.must(
      p.decode_context >= 1 && state_parallel_size(p) % p.decode_context == 0,
      "decode_context_parallel_size",
      "a sequence's tokens are dealt out over tensor parallel ranks: the size must divide the "
      "tensor parallel size, and be 1 under attention data parallelism");
  check.in("expert_parallel_size", p.expert, 1, kMostRanks);
  check.must(p.pipeline <= static_cast<std::int64_t>(request.target.layers.size()),
             "pipeline_parallel_size", "more pipeline stages than layers");
  check.in("page_size", request.tokens_per_block, 1, kLargestPage);
  check.in("reserved_pages", request.reserved_pages, 0, kMostDraftTokens);
  check.in("granularity", request.granularity, 1, kLargestGranule);
  check.must(!request.granularity.has_value() ||
                 std::has_single_bit(static_cast<std::uint64_t>(request.granularity->count())),
             "granularity", "granules are a power of two bytes");
  const Workload& workload = request.workload;
  check.in("max_num_seqs", workload.max_num_seqs, 1, kMostSequences);
  check.in("max_model_len", workload.max_model_len, 1, kMostTokens);
  check.in("max_num_batched_tokens", workload.max_batched_tokens.count(), 0, kMostTokens);
  check.in("state_snapshots", workload.state_snapshots_per_seq, 0, kMostDraftTokens);
  const BudgetRequest& budget = request.budget;
  check.in("kv_budget", budget.kv_budget, 0, kMostBytes);
  check.in("gpu_memory", budget.gpu_memory, 1, kMostBytes);
  check.in("gpu_memory_utilization", budget.utilization_ppm, 1, kMillion);
  check.in("weights", budget.weights, 0, kMostBytes);
  check.in("overhead", budget.overhead, 0, kMostBytes);
  check_overheads(check, budget.overheads);
  check.must(!request.target.layers.empty(), "num_hidden_layers", "the model has no layers");
  check_model(check, request.target);
  if (request.drafter.has_value()) {
    check_drafter(check, *request.drafter);
    if (request.drafter->model.has_value()) {
      check_model(check, *request.drafter->model);
    }
  }
  return std::move(check).take();
}

}  // namespace kvpool
