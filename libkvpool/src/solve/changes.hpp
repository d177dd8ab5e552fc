// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Single changes of a deployment that give cache memory back, the cheapest first.
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/plan/plan_request.hpp>
#include <kvpool/solve/answer.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kvpool {

/// What a change turns, so that a question leaves out what it solves for.
enum class ChangeKind {
  kSetting,      ///< a knob that costs neither quality nor speed of decoding
  kFormat,       ///< a smaller cache format
  kDraftFormat,  ///< a smaller format of the draft pool
  kFewer,        ///< fewer sequences
  kShorter,      ///< shorter sequences
  kNoDrafter,    ///< no drafter
  kAttentionDp,  ///< sequences of their own for every rank, where ranks hold the same
  kTensor,       ///< more GPUs for one replica
  kPipeline,     ///< more stages
  kData,         ///< more replicas
};

/// One change.
struct Change {
  ChangeKind kind = ChangeKind::kSetting;
  /// In the words of the command line.
  std::string text{};
  /// The deployment after it.
  PlanRequest request{};
};

/// The changes that make sense for a deployment, in order of cost. Where `--max-num-seqs` is
/// sequences in all, further replicas take their part of them.
[[nodiscard]] std::vector<Change> changes_of(const PlanRequest& request,
                                             const CapabilityRegistry& registry);

/// Outcome of a question for one request, better when larger.
struct Outcome {
  std::int64_t value = 0;
  std::string chosen{};
};

/// Adds the changes that give a better outcome than `answer` has. `ask` returns nothing where there
/// is no answer; `better` compares values.
void add_reliefs(const PlanRequest& request, const CapabilityRegistry& registry,
                 const std::vector<ChangeKind>& kinds,
                 const std::function<std::optional<Outcome>(const Change&)>& ask,
                 const std::function<bool(std::int64_t, std::int64_t)>& better, Answer& answer);

}  // namespace kvpool
