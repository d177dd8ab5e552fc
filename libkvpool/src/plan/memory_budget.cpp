// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/memory_budget.hpp>

#include <kvpool/core/checked.hpp>

#include <fmt/format.h>

#include <utility>

namespace kvpool {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// An overhead that published logs agree on only roughly.
struct AssumedOverhead {
  std::string_view name;
  std::int64_t expected_mib;
  std::int64_t low_mib;
  std::int64_t high_mib;
  std::string_view reason;
};

constexpr AssumedOverhead kContext{"cuda_context", 426, 287, 700,
                                   "CUDA context of one process; published logs"};
constexpr AssumedOverhead kCommunication{"communication", 392, 342, 1086,
                                         "communicators of more than one GPU; published logs"};
constexpr AssumedOverhead kActivations{
    "activations", 2458, 225, 7557,
    "peak of one step of 8k tokens; grows with the batched tokens; published logs"};
constexpr AssumedOverhead kGraphs{"cuda_graphs", 553, 369, 1587, "captured graphs; published logs"};

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

LedgerLine assumed_line(const AssumedOverhead& overhead) {
  return {.name = std::string{overhead.name},
          .bytes = Bytes{overhead.expected_mib * kMiB},
          .kind = LedgerKind::kAssumed,
          .low = Bytes{overhead.low_mib * kMiB},
          .high = Bytes{overhead.high_mib * kMiB},
          .reason = std::string{overhead.reason}};
}

/// Weights of one rank, estimated from the config. The ends leave room for what the estimate does
/// not count and for tensors that ranks keep whole.
LedgerLine weights_line(std::string name, const ModelConfig& model, std::int64_t ranks) {
  const ParameterEstimate& estimate = model.parameters;
  const CheckedInt plain =
      ceil_div(CheckedInt{estimate.plain.count()} * estimate.plain_bits, CheckedInt{8});
  const CheckedInt quantized = ceil_div(
      CheckedInt{estimate.quantized.count()} * estimate.quantized_centibits, CheckedInt{800});
  const CheckedInt rank = ceil_div(plain + quantized, CheckedInt{ranks});
  return {.name = std::move(name),
          .bytes = Bytes{rank.saturated()},
          .kind = LedgerKind::kAssumed,
          .low = Bytes{floor_div(rank * 98, CheckedInt{100}).saturated()},
          .high = Bytes{ceil_div(rank * 110, CheckedInt{100}).saturated()},
          .reason = fmt::format("{}; over {} rank{}; --weights replaces it", estimate.basis, ranks,
                                ranks == 1 ? "" : "s")};
}

Result<LedgerLine> device_line(const BudgetRequest& request,
                               const std::optional<DeviceSpec>& device) {
  if (request.gpu_memory.has_value()) {
    return exact_line("device_total", *request.gpu_memory, "given as --gpu-memory");
  }
  if (device.has_value()) {
    return LedgerLine{.name = "device_total",
                      .bytes = device->cuda_visible_low,
                      .kind = LedgerKind::kAssumed,
                      .low = device->cuda_visible_low,
                      .high = device->cuda_visible_high,
                      .reason = fmt::format("what a CUDA process sees of a {}, the smallest of the "
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

Result<std::vector<LedgerLine>> budget_ledger(const BudgetRequest& request,
                                              const std::optional<DeviceSpec>& device,
                                              const Parallelism& parallelism,
                                              const ModelConfig& target,
                                              const ModelConfig* drafter) {
  std::vector<LedgerLine> lines;
  if (request.kv_budget.has_value()) {
    lines.push_back(exact_line("kv_budget", *request.kv_budget, "given as --kv-budget"));
    return lines;
  }
  auto total = device_line(request, device);
  if (!total) {
    return std::move(total).error();
  }
  const std::int64_t ranks = (CheckedInt{parallelism.tensor} * parallelism.pipeline).saturated();
  lines.push_back(withheld_line(*total, request.utilization_ppm));
  if (request.weights.has_value()) {
    lines.push_back(exact_line("weights", *request.weights, "given as --weights"));
  } else {
    lines.push_back(weights_line("weights", target, ranks));
    if (drafter != nullptr) {
      lines.push_back(weights_line("draft_weights", *drafter, ranks));
    }
  }
  if (request.overhead.has_value()) {
    lines.push_back(exact_line("overhead", *request.overhead, "given as --overhead"));
  } else {
    lines.push_back(assumed_line(kActivations));
    lines.push_back(assumed_line(kContext));
    lines.push_back(assumed_line(kGraphs));
    if (ranks > 1) {
      lines.push_back(assumed_line(kCommunication));
    }
  }
  RangedBytes spent;
  bool all_known = total->kind == LedgerKind::kExact;
  for (const LedgerLine& line : lines) {
    spent.add(line);
    all_known = all_known && line.kind != LedgerKind::kAssumed;
  }
  // A smaller total also withholds less, so the ends are reckoned with their own lines.
  const auto left = [](Bytes of, CheckedInt minus) {
    return Bytes{(CheckedInt{of.count()} - minus).saturated()};
  };
  LedgerLine kv{.name = "kv_budget",
                .bytes = left(total->bytes, spent.bytes),
                .kind = all_known ? LedgerKind::kDerived : LedgerKind::kAssumed,
                .low = left(total->low, spent.high),
                .high = left(total->high, spent.low),
                .reason = "device total less everything above"};
  lines.insert(lines.begin(), *std::move(total));
  lines.push_back(std::move(kv));
  return lines;
}

}  // namespace kvpool
