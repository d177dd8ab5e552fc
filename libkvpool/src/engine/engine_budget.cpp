// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/engine/engine_budget.hpp>

#include <kvpool/core/checked.hpp>
#include <kvpool/plan/planner.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace kvpool {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kMib = std::int64_t{1} << 20;
constexpr std::int64_t kGib = std::int64_t{1} << 30;

/// vLLM's default share of the total, and the release that raised it.
constexpr std::int64_t kVllmFraction = 920'000;
constexpr std::int64_t kVllmOldFraction = 900'000;
constexpr EngineVersion kVllmRaised{.major = 0, .minor = 21};
/// TensorRT-LLM's default share of what is free.
constexpr std::int64_t kTrtllmFraction = 900'000;

std::string share_text(std::int64_t ppm) {
  return fmt::format("{}.{:03}", ppm / kMillion, ppm % kMillion / 1'000);
}

Bytes share_of(Bytes of, std::int64_t ppm) {
  return Bytes{
      floor_div(CheckedInt{std::max<std::int64_t>(of.count(), 0)} * ppm, kMillion).saturated()};
}

/// The lines of a rank whose memory may be used up to `ppm` of the total.
Result<std::vector<LedgerLine>> ledger_of(const PlanRequest& request, std::int64_t ppm) {
  PlanRequest of = request;
  of.budget.utilization_ppm = ppm;
  Result<std::vector<LedgerLine>> lines = budget_ledger(of);
  if (lines && ppm == kMillion) {
    std::erase_if(*lines, [](const LedgerLine& line) { return line.name == "withheld"; });
  }
  return lines;
}

/// Puts the cache's share in place of the last line, which says what is left.
void keep_share(std::vector<LedgerLine>& lines, std::int64_t ppm) {
  LedgerLine left = std::move(lines.back());
  lines.pop_back();
  LedgerLine kept = left;
  kept.name = "kept_free";
  kept.kind = LedgerKind::kDerived;
  kept.bytes = left.bytes - share_of(left.bytes, ppm);
  kept.low = left.low - share_of(left.low, ppm);
  kept.high = left.high - share_of(left.high, ppm);
  kept.reason =
      fmt::format("free_gpu_memory_fraction {} is of what is free after the peak", share_text(ppm));
  left.bytes = share_of(left.bytes, ppm);
  left.low = share_of(left.low, ppm);
  left.high = share_of(left.high, ppm);
  left.reason = "the fraction of it";
  lines.push_back(std::move(kept));
  lines.push_back(std::move(left));
}

/// True for what SGLang's reserve is there for: it is not subtracted once more.
bool runs_in_reserve(const LedgerLine& line) {
  return line.name == "activations" || line.name == "cuda_graphs" || line.name == "graphs";
}

Result<std::vector<LedgerLine>> sglang_budget(const EngineFractions& fractions,
                                              const PlanRequest& request) {
  Result<std::vector<LedgerLine>> ledger = ledger_of(request, kMillion);
  if (!ledger) {
    return ledger;
  }
  const Bytes total = ledger->front().bytes;
  const std::int64_t reserved = sglang_reserved_mib(
      request.parallelism, total, request.workload.max_batched_tokens, fractions.graph_max_batch);
  const std::int64_t fraction =
      fractions.fraction_ppm.value_or(sglang_fraction_ppm(reserved, total));
  std::vector<LedgerLine> lines;
  Bytes spent;
  Bytes spent_low;
  Bytes spent_high;
  const auto withheld = [fraction](Bytes of) { return of - share_of(of, fraction); };
  const LedgerLine device = ledger->front();
  lines.push_back(device);
  lines.push_back({.name = "withheld",
                   .bytes = withheld(device.bytes),
                   .kind = LedgerKind::kDerived,
                   .low = withheld(device.low),
                   .high = withheld(device.high),
                   .reason = fractions.fraction_ppm.has_value()
                                 ? fmt::format("mem_fraction_static {}", share_text(fraction))
                                 : fmt::format("mem_fraction_static {}: {} MiB are reserved (512 + "
                                               "1.5 x chunk + tp x pp / 8 x 1024 + 2 x graph "
                                               "batch)",
                                               share_text(fraction), reserved)});
  for (LedgerLine& line : *ledger) {
    if (!runs_in_reserve(line) && line.name != "kv_budget" && line.name != "device_total") {
      lines.push_back(std::move(line));
    }
  }
  for (std::size_t i = 1; i < lines.size(); ++i) {
    spent += lines[i].bytes;
    spent_low += lines[i].low;
    spent_high += lines[i].high;
  }
  lines.push_back({.name = "kv_budget",
                   .bytes = device.bytes - spent,
                   .kind = ledger->back().kind,
                   .low = device.low - spent_high,
                   .high = device.high - spent_low,
                   .reason = "device total less everything above"});
  return lines;
}

}  // namespace

std::int64_t sglang_reserved_mib(const Parallelism& parallelism, Bytes total, Tokens prefill_chunk,
                                 std::int64_t graph_max_batch) {
  constexpr std::int64_t kBase = 512;
  constexpr std::int64_t kPerRanks = 1024 / 8;
  constexpr std::int64_t kDpReserve = 10'240;
  constexpr std::int64_t kLargeGpu = 60 * kGib;
  const CheckedInt reserved = CheckedInt{kBase} +
                              ceil_div(CheckedInt{prefill_chunk.count()} * 3, 2) +
                              CheckedInt{parallelism.tensor} * parallelism.pipeline * kPerRanks +
                              CheckedInt{graph_max_batch} * 2;
  const bool large_dp = parallelism.attention_data_parallel && total.count() > kLargeGpu;
  return (large_dp ? max(reserved, kDpReserve) : reserved).saturated();
}

std::int64_t sglang_fraction_ppm(std::int64_t reserved_mib, Bytes total) noexcept {
  constexpr std::int64_t kThousand = 1'000;
  const CheckedInt mib{total.count() / kMib};
  const CheckedInt left = max(mib - reserved_mib, 0);
  // Rounded to three decimals.
  return (floor_div(left * kThousand * 2 + mib, mib * 2) * kThousand).saturated();
}

Result<std::vector<LedgerLine>> engine_budget(Engine engine, const EngineFractions& fractions,
                                              const PlanRequest& request) {
  if (request.budget.kv_budget.has_value()) {
    return ledger_of(request, kMillion);
  }
  switch (engine) {
    case Engine::kVllm: {
      const bool old = fractions.version.has_value() && *fractions.version < kVllmRaised;
      return ledger_of(request,
                       fractions.fraction_ppm.value_or(old ? kVllmOldFraction : kVllmFraction));
    }
    case Engine::kSglang: return sglang_budget(fractions, request);
    case Engine::kTrtllm: {
      Result<std::vector<LedgerLine>> lines = ledger_of(request, kMillion);
      if (lines) {
        keep_share(*lines, fractions.fraction_ppm.value_or(kTrtllmFraction));
      }
      return lines;
    }
    case Engine::kLlamacpp:
    case Engine::kIkLlamacpp: break;
  }
  // No tensor parallelism: the whole model lies on the GPU.
  PlanRequest whole = request;
  whole.parallelism = {};
  return ledger_of(whole, kMillion);
}

}  // namespace kvpool
