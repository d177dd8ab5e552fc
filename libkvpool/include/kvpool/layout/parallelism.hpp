// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>

#include <cstdint>

namespace kvpool {

/// How a deployment spreads one model over GPUs. All sizes are at least 1.
struct Parallelism {
  /// Tensor parallel size.
  std::int64_t tensor = 1;
  /// Pipeline parallel size (stages).
  std::int64_t pipeline = 1;
  /// Data parallel size: independent replicas; a replica's cache is planned.
  std::int64_t data = 1;
  /// Decode-context parallel size: a sequence's tokens are dealt out over this many of the tensor
  /// parallel ranks, which then hold the same heads. Divides `tensor`.
  std::int64_t decode_context = 1;
  /// Expert parallel size (weights only).
  std::int64_t expert = 1;
  /// Attention is data parallel: every rank keeps all KV heads of its own sequences.
  bool attention_data_parallel = false;

  /// Field by field.
  friend bool operator==(const Parallelism&, const Parallelism&) = default;
};

/// Ranks over which the heads of a recurrent state are divided: the tensor parallel size, or 1
/// under attention data parallelism.
[[nodiscard]] constexpr std::int64_t state_parallel_size(const Parallelism& p) noexcept {
  return p.attention_data_parallel ? 1 : p.tensor;
}

/// Ranks over which attention heads are divided: those of `state_parallel_size` that do not share
/// heads in order to share tokens.
[[nodiscard]] constexpr std::int64_t head_parallel_size(const Parallelism& p) noexcept {
  return state_parallel_size(p) / p.decode_context;
}

/// Heads that one rank keeps: rounded up, so that heads are replicated when there are fewer than
/// ranks. The one place that divides heads; cost and allocation both come from it.
[[nodiscard]] constexpr Heads heads_per_rank(Heads heads, const Parallelism& p) noexcept {
  return Heads{ceil_div(heads.count(), head_parallel_size(p))};
}

/// Layers of one pipeline stage, `[first, first + count)`.
struct StageLayers {
  /// First layer, from 0.
  std::int64_t first = 0;
  /// How many.
  std::int64_t count = 0;

  /// Field by field.
  friend bool operator==(const StageLayers&, const StageLayers&) = default;
};

/// Contiguous equal parts; a remainder goes one layer each to the stages before the last, the last
/// but one first.
/// @param layers layers of the model
/// @param stages pipeline size, at least 1
/// @param stage which stage, from 0
[[nodiscard]] StageLayers stage_layers(std::int64_t layers, std::int64_t stages,
                                       std::int64_t stage) noexcept;

}  // namespace kvpool
