// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/device_spec.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/engine/engine.hpp>
#include <kvpool/plan/memory_budget.hpp>
#include <kvpool/plan/plan_request.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace kvpool {

/// What an engine's fraction depends on. Fractions mean different things: vLLM's is of the total
/// and covers everything, SGLang's covers weights and cache, TensorRT-LLM's is of what is free
/// after the peak.
struct EngineFractions {
  /// Release of the engine, where defaults depend on it; the newest known without it.
  std::optional<EngineVersion> version{};
  /// The engine's fraction in millionths; its own default without it.
  std::optional<std::int64_t> fraction_ppm{};
  /// SGLang: largest batch of its CUDA graphs.
  std::int64_t graph_max_batch = 512;
};

/// Memory that SGLang keeps free of weights and cache, in MiB: 512 + 1.5 x tokens of a prefill
/// chunk + tp x pp / 8 x 1024 + 2 x the largest graph batch; with attention data parallelism on
/// GPUs above 60 GiB at least 10 GiB. @pre the request's numbers are in their ranges
[[nodiscard]] std::int64_t sglang_reserved_mib(const Parallelism& parallelism, Bytes total,
                                               Tokens prefill_chunk, std::int64_t graph_max_batch);

/// SGLang's default `mem_fraction_static` in millionths: what the reserve leaves of the total, in
/// thousandths.
[[nodiscard]] std::int64_t sglang_fraction_ppm(std::int64_t reserved_mib, Bytes total) noexcept;

/// The lines from the device's total down to what an engine gives its cache (`kv_budget`, the
/// last), as `budget_ledger` has them for kvpool. llama.cpp has no fraction and no tensor
/// parallelism: all that the whole model leaves.
/// @return `kInvalidArgument` when neither a KV budget, a GPU nor its memory is given
[[nodiscard]] Result<std::vector<LedgerLine>> engine_budget(Engine engine,
                                                            const EngineFractions& fractions,
                                                            const PlanRequest& request);

}  // namespace kvpool
