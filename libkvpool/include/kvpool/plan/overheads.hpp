// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// A size that is known only between two ends. An exact one has three equal numbers.
struct SizeRange {
  /// Smallest amount that it may turn out to be.
  Bytes low{};
  /// What plans reckon with.
  Bytes expected{};
  /// Largest amount that it may turn out to be.
  Bytes high{};

  /// Field by field.
  friend bool operator==(const SizeRange&, const SizeRange&) = default;
};

/// Reads `SIZE`, `LOW..HIGH` (expected is the middle, rounded down) or `LOW..EXPECTED..HIGH`, each
/// a size as `parse_size` reads it.
/// @return `invalid_argument` for ends that do not ascend, and what `parse_size` returns
[[nodiscard]] Result<SizeRange> parse_size_range(std::string_view text);

/// Another process on the same GPU.
struct CoLocated {
  /// Name, for the ledger's line `co_located:<name>`.
  std::string name{};
  /// What it takes, its CUDA context included.
  SizeRange size{};

  /// Field by field.
  friend bool operator==(const CoLocated&, const CoLocated&) = default;
};

/// What a rank needs besides weights and cache. What is left out is assumed from published figures
/// of the host engine.
struct OverheadRequest {
  /// Engine that embeds kvpool: one of `host_engines()`, or empty for figures of no engine in
  /// particular.
  std::string engine{};
  /// Its version, such as `0.21`; empty for the newest that is known.
  std::string version{};
  /// Peak of activations in one step.
  std::optional<SizeRange> activations{};
  /// CUDA context of the process.
  std::optional<SizeRange> cuda_context{};
  /// Captured graphs.
  std::optional<SizeRange> cuda_graphs{};
  /// Communicators of more than one GPU.
  std::optional<SizeRange> communication{};
  /// Other processes on the same GPU.
  std::vector<CoLocated> co_located{};

  /// Field by field.
  friend bool operator==(const OverheadRequest&, const OverheadRequest&) = default;
};

/// Engines whose overheads are in the table: `vllm`, `sglang`, `trtllm`.
[[nodiscard]] std::span<const std::string_view> host_engines() noexcept;

}  // namespace kvpool
