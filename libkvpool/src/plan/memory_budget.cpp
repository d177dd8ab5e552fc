// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/memory_budget.hpp>

#include <kvpool/core/checked.hpp>
#include <kvpool/plan/stored_share.hpp>

#include "plan/overhead_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvpool {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

/// Sum of lines, with its own range.
struct RangedBytes {
  CheckedInt bytes{0};
  CheckedInt low{0};
  CheckedInt high{0};

  void add(const LedgerLine& line) {
    bytes += line.bytes.count();
    low += line.low.count();
    high += line.high.count();
  }
};

LedgerLine exact_line(std::string name, Bytes bytes, std::string reason) {
  return {.name = std::move(name),
          .bytes = bytes,
          .kind = LedgerKind::kExact,
          .low = bytes,
          .high = bytes,
          .reason = std::move(reason)};
}

/// `over 8 ranks`, or by part when parts are divided differently.
std::string division_text(const WeightShares& shares, std::int64_t pipeline) {
  const auto ranks = [pipeline](const WeightShare& share) {
    return (CheckedInt{share.ranks} * pipeline).saturated();
  };
  const std::int64_t rest = ranks(shares.rest);
  std::string text;
  const auto add = [&](std::string_view what, const WeightShare& share) {
    if (ranks(share) != rest && share.stored.count() > 0) {
      text += fmt::format("{} bytes of {} over {}, ", share.stored.count(), what, ranks(share));
    }
  };
  add("attention", shares.attention);
  add("routed experts", shares.routed_experts);
  return fmt::format("{}over {} rank{}", text.empty() ? text : text + "the rest ", rest,
                     rest == 1 ? "" : "s");
}

/// Weights of one rank, estimated from the config. The ends leave room for what the estimate does
/// not count and for tensors that ranks keep whole.
LedgerLine estimated_line(std::string name, const ModelConfig& model,
                          const Parallelism& parallelism) {
  const WeightShares shares = weight_shares(model.parameters, parallelism);
  const CheckedInt rank{shares.per_rank.count()};
  return {.name = std::move(name),
          .bytes = Bytes{rank.saturated()},
          .kind = LedgerKind::kAssumed,
          .low = Bytes{floor_div(rank * 98, CheckedInt{100}).saturated()},
          .high = Bytes{ceil_div(rank * 110, CheckedInt{100}).saturated()},
          .reason = fmt::format("{}; {}; --weights replaces it", model.parameters.basis,
                                division_text(shares, parallelism.pipeline))};
}

/// Weights of the fullest rank of a stage, from the headers of the checkpoint's files.
LedgerLine stored_line(std::string name, const StoredWeights& weights, const StoredShare& share,
                       std::int64_t stages) {
  std::string reason =
      fmt::format("read from {} safetensors header{}: {} tensors of {} bytes", weights.files,
                  weights.files == 1 ? "" : "s", weights.tensors, weights.stored.count());
  if (stages > 1) {
    reason += fmt::format("; stage {} of {}", share.stage, stages);
  }
  if (!weights.unknown_names.empty()) {
    reason +=
        fmt::format("; it is not known how ranks divide {}, ...", weights.unknown_names.front());
  } else if (share.low != share.high) {
    reason += "; engines divide encoders or fill token tables differently";
  }
  return {.name = std::move(name),
          .bytes = share.bytes,
          .kind = share.low == share.high ? LedgerKind::kExact : LedgerKind::kAssumed,
          .low = share.low,
          .high = share.high,
          .reason = std::move(reason)};
}

/// A model's weights on every stage.
std::vector<LedgerLine> weights_lines(const std::string& name, const ModelConfig& model,
                                      const Parallelism& parallelism, bool next_token_layers) {
  if (!model.weights.has_value()) {
    return std::vector(static_cast<std::size_t>(parallelism.pipeline),
                       estimated_line(name, model, parallelism));
  }
  std::vector<LedgerLine> lines;
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  for (const StoredShare& share :
       stored_shares(*model.weights, layers, parallelism, next_token_layers)) {
    lines.push_back(stored_line(name, *model.weights, share, parallelism.pipeline));
  }
  return lines;
}

/// A drafter's weights on every stage.
std::vector<LedgerLine> draft_lines(const ModelConfig& drafter, const Parallelism& parallelism) {
  const std::string name = "draft_weights";
  if (!lies_on_last_stage(drafter) || parallelism.pipeline == 1) {
    return weights_lines(name, drafter, parallelism, false);
  }
  Parallelism one = parallelism;
  one.pipeline = 1;
  std::vector<LedgerLine> lines(static_cast<std::size_t>(parallelism.pipeline),
                                exact_line(name, Bytes{0}, "the drafter lies on the last stage"));
  lines.back() = weights_lines(name, drafter, one, false).front();
  lines.back().reason += "; the last stage";
  return lines;
}

Result<LedgerLine> device_line(const BudgetRequest& request,
                               const std::optional<DeviceSpec>& device) {
  if (request.gpu_memory.has_value()) {
    return exact_line("device_total", *request.gpu_memory, "given as --gpu-memory");
  }
  if (device.has_value()) {
    return LedgerLine{
        .name = "device_total",
        .bytes = device->cuda_visible_low,
        .kind = LedgerKind::kAssumed,
        .low = device->cuda_visible_low,
        .high = device->cuda_visible_high,
        .reason = fmt::format("what a CUDA process sees of the {}, the smallest of the "
                              "published values",
                              device->name)};
  }
  return Error{.code = ErrorCode::kInvalidArgument,
               .message =
                   "neither a KV budget, a GPU nor its memory is given; use --kv-budget, "
                   "--gpu or --gpu-memory",
               .key = "gpu"};
}

LedgerLine withheld_line(const LedgerLine& total, std::int64_t utilization_ppm) {
  const auto withheld = [utilization_ppm](Bytes of) {
    return Bytes{
        of.count() -
        floor_div(CheckedInt{of.count()} * utilization_ppm, CheckedInt{kMillion}).saturated()};
  };
  return {.name = "withheld",
          .bytes = withheld(total.bytes),
          .kind = LedgerKind::kDerived,
          .low = withheld(total.low),
          .high = withheld(total.high),
          .reason = fmt::format("{}.{:06} of the total may be used (--gpu-memory-utilization)",
                                utilization_ppm / kMillion, utilization_ppm % kMillion)};
}

}  // namespace

std::string_view to_string(LedgerKind kind) noexcept {
  switch (kind) {
    case LedgerKind::kExact: return "exact";
    case LedgerKind::kDerived: return "derived";
    case LedgerKind::kAssumed: return "assumed";
    case LedgerKind::kMeasured: return "measured";
  }
  return "exact";
}

bool runs_on_last_stage_only(DrafterKind kind) noexcept {
  return kind == DrafterKind::kMtp || kind == DrafterKind::kEagle3;
}

bool lies_on_last_stage(const ModelConfig& drafter) noexcept {
  const auto kind = drafter.drafter.has_value() ? drafter.drafter->kind : std::nullopt;
  return kind.has_value() && runs_on_last_stage_only(*kind);
}

WeightShares weight_shares(const ParameterEstimate& estimate,
                           const Parallelism& parallelism) noexcept {
  const CheckedInt plain =
      ceil_div(CheckedInt{estimate.plain.count()} * estimate.plain_bits, CheckedInt{8});
  const CheckedInt quantized = ceil_div(
      CheckedInt{estimate.quantized.count()} * estimate.quantized_centibits, CheckedInt{800});
  const CheckedInt whole = plain + quantized;
  // The mean bits of a quantised parameter are rounded, so parts may exceed the whole by a trace.
  const CheckedInt attention = min(CheckedInt{estimate.attention.count()}, whole);
  const CheckedInt experts = min(CheckedInt{estimate.routed_experts.count()}, whole - attention);
  const CheckedInt rest = whole - attention - experts;
  const auto divide = [&parallelism](CheckedInt stored, std::int64_t ranks) {
    return ceil_div(stored, CheckedInt{ranks} * parallelism.pipeline);
  };
  const auto share = [&divide](CheckedInt stored, std::int64_t ranks) {
    return WeightShare{.stored = Bytes{stored.saturated()},
                       .ranks = ranks,
                       .per_rank = Bytes{divide(stored, ranks).saturated()}};
  };
  WeightShares out{
      .attention = share(attention, parallelism.attention_data_parallel ? 1 : parallelism.tensor),
      .routed_experts = share(experts, std::max(parallelism.expert, parallelism.tensor)),
      .rest = share(rest, parallelism.tensor)};
  CheckedInt alike = rest;
  CheckedInt apart{0};
  for (const auto& [part, stored] :
       {std::pair{out.attention, attention}, std::pair{out.routed_experts, experts}}) {
    if (part.ranks == out.rest.ranks) {
      alike += stored;
    } else {
      apart += divide(stored, part.ranks);
    }
  }
  out.per_rank = Bytes{(divide(alike, parallelism.tensor) + apart).saturated()};
  return out;
}

namespace {

/// What one stage has left of the total after `lines`.
std::vector<LedgerLine> settled(const LedgerLine& total, std::vector<LedgerLine> lines) {
  RangedBytes spent;
  bool all_known = total.kind == LedgerKind::kExact;
  for (const LedgerLine& line : lines) {
    spent.add(line);
    all_known = all_known && line.kind != LedgerKind::kAssumed;
  }
  // A smaller total also withholds less, so the ends are reckoned with their own lines.
  const auto left = [](Bytes of, CheckedInt minus) {
    return Bytes{(CheckedInt{of.count()} - minus).saturated()};
  };
  LedgerLine kv{.name = "kv_budget",
                .bytes = left(total.bytes, spent.bytes),
                .kind = all_known ? LedgerKind::kDerived : LedgerKind::kAssumed,
                .low = left(total.low, spent.high),
                .high = left(total.high, spent.low),
                .reason = "device total less everything above"};
  lines.insert(lines.begin(), total);
  lines.push_back(std::move(kv));
  return lines;
}

}  // namespace

Result<std::vector<std::vector<LedgerLine>>> stage_ledgers(
    const BudgetRequest& request, const std::optional<DeviceSpec>& device,
    const Parallelism& parallelism, Tokens step_tokens, const ModelConfig& target,
    const ModelConfig* drafter, bool next_token_layers) {
  // Before a ledger is made for each of them.
  if (parallelism.pipeline > static_cast<std::int64_t>(target.layers.size())) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = "more pipeline stages than layers",
                 .key = "pipeline_parallel_size"};
  }
  std::vector<std::vector<LedgerLine>> stages(static_cast<std::size_t>(parallelism.pipeline));
  if (request.kv_budget.has_value()) {
    for (std::vector<LedgerLine>& lines : stages) {
      lines.push_back(exact_line("kv_budget", *request.kv_budget, "given as --kv-budget"));
    }
    return stages;
  }
  const auto total = device_line(request, device);
  if (!total) {
    return total.error();
  }
  std::vector<LedgerLine> weights;
  std::vector<LedgerLine> draft;
  if (request.weights.has_value()) {
    weights.assign(stages.size(), exact_line("weights", *request.weights, "given as --weights"));
  } else {
    weights = weights_lines("weights", target, parallelism, next_token_layers);
    draft = drafter == nullptr ? draft : draft_lines(*drafter, parallelism);
  }
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    std::vector<LedgerLine> lines{withheld_line(*total, request.utilization_ppm)};
    std::ranges::move(co_located_lines(request.overheads), std::back_inserter(lines));
    lines.push_back(std::move(weights[stage]));
    if (!draft.empty()) {
      lines.push_back(std::move(draft[stage]));
    }
    if (request.overhead.has_value()) {
      lines.push_back(exact_line("overhead", *request.overhead, "given as --overhead"));
    } else {
      std::ranges::move(overhead_lines(request.overheads, parallelism, step_tokens, total->bytes),
                        std::back_inserter(lines));
    }
    stages[stage] = settled(*total, std::move(lines));
  }
  return stages;
}

Result<std::vector<LedgerLine>> budget_ledger(const BudgetRequest& request,
                                              const std::optional<DeviceSpec>& device,
                                              const Parallelism& parallelism, Tokens step_tokens,
                                              const ModelConfig& target, const ModelConfig* drafter,
                                              bool next_token_layers) {
  auto stages =
      stage_ledgers(request, device, parallelism, step_tokens, target, drafter, next_token_layers);
  if (!stages) {
    return std::move(stages).error();
  }
  return *std::ranges::min_element(
      *stages, {}, [](const std::vector<LedgerLine>& lines) { return lines.back().bytes; });
}

}  // namespace kvpool
