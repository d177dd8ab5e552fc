// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/plan/plan_request.hpp>
#include <kvpool/solve/answer.hpp>
#include <kvpool/solve/length_mix.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

// Questions that a plan answers backwards. Each function plans again and again (`make_plan`, no
// formula of its own) until it stands on both sides of the limit: the answer fits, and the next
// step does not. All are pure. An `Error` means that the request itself is malformed; that nothing
// fits is an `Answer` with `found == false`.

namespace kvpool {

/// Sizes that the search for GPUs looks at.
struct GpuSearch {
  /// Most GPUs in all.
  std::int64_t most = 256;
  /// Largest tensor parallel size; powers of two that divide the query heads are tried.
  std::int64_t most_tensor = 64;
  /// Most pipeline stages; 1, 2, 3, 4, 6, 8, 12 and 16 are tried.
  std::int64_t most_pipeline = 16;
};

/// Longest sequence at which the asked number of sequences fits, up to the positions that the
/// config states; the figure `memory_alone` says how far memory would reach.
[[nodiscard]] Result<Answer> solve_max_model_len(const PlanRequest& request,
                                                 const CapabilityRegistry& registry);

/// Most sequences of the asked length that fit at the same time.
[[nodiscard]] Result<Answer> solve_max_num_seqs(const PlanRequest& request,
                                                const CapabilityRegistry& registry);

/// Most sequences whose lengths follow a mix. Pools are planned for that many sequences and the
/// asked longest length, which must not be below the mix's: `request` and `beyond` of the answer
/// are asked with `pool_that_runs_out`, since `Plan::fits` asks whether all of them fit at their
/// longest.
[[nodiscard]] Result<Answer> solve_max_num_seqs(const PlanRequest& request,
                                                const CapabilityRegistry& registry,
                                                const LengthMix& mix);

/// Fewest GPUs (tensor x pipeline x data parallel) that hold the asked number of sequences, all
/// replicas together, at the asked length. A replica plans for its part, rounded up; under
/// attention data parallelism a rank does. Among equals: fewest stages, then the most room. Weights
/// that were given for one GPU hold for the given split only and are estimated instead, as a note.
[[nodiscard]] Result<Answer> solve_gpus(const PlanRequest& request,
                                        const CapabilityRegistry& registry, GpuSearch search = {});

/// Smallest share of the GPU's memory, in millionths, with which the asked sequences fit; the
/// figure `largest` is the largest that still starts when every assumed line turns out at its
/// worst: more than that runs out of memory there. A KV budget leaves nothing to solve.
[[nodiscard]] Result<Answer> solve_gpu_memory_utilization(const PlanRequest& request,
                                                          const CapabilityRegistry& registry);

/// Of the formats that take no more than the model's own, the one that keeps the most bytes a token
/// and still fits.
[[nodiscard]] Result<Answer> solve_kv_cache_dtype(const PlanRequest& request,
                                                  const CapabilityRegistry& registry);

/// Of the pages of 8 to 256 tokens, the one with the least waste for a mix of lengths that can be
/// used and loses no kernel that another page keeps; the larger of equals. Whether the asked
/// sequences fit is left to the other questions.
[[nodiscard]] Result<Answer> solve_page_size(const PlanRequest& request,
                                             const CapabilityRegistry& registry,
                                             const LengthMix& mix);

/// A drafter to choose from.
struct DrafterChoice {
  /// Name for the answer.
  std::string name{};
  /// What it is.
  DrafterRequest drafter{};
};

/// Of the given drafters, the one that takes the most bytes (weights and cache for the asked
/// sequences) and fits.
[[nodiscard]] Result<Answer> solve_drafter(const PlanRequest& request,
                                           const CapabilityRegistry& registry,
                                           std::span<const DrafterChoice> choices);

/// Most layers, like its own in turn, that the request's drafter may have; weights grow in
/// proportion, those of further next-token (MTP) layers are not counted. A request without a
/// drafter, or with one that keeps no cache, is `kInvalidArgument`.
[[nodiscard]] Result<Answer> solve_drafter_layers(const PlanRequest& request,
                                                  const CapabilityRegistry& registry);

/// Most draft tokens a step, up to 1024; the figure `fast_path` is the most at which every kernel
/// that runs at one token still runs. A request without a drafter is `kInvalidArgument`.
[[nodiscard]] Result<Answer> solve_num_draft_tokens(const PlanRequest& request,
                                                    const CapabilityRegistry& registry);

/// Smallest KV budget of a rank with which the request fits: the exact bytes that it needs.
/// @return nothing when none does, or when it is refused for another reason than bytes
[[nodiscard]] Result<std::optional<Bytes>> least_kv_budget(const PlanRequest& request,
                                                           const CapabilityRegistry& registry);

}  // namespace kvpool
