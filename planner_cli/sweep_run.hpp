// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/plan/pool_plan.hpp>

#include "options.hpp"
#include "sweep_axes.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kvpool::cli {

/// What became of one point of a sweep.
struct SweepPoint {
  /// True when the asked sequences fit.
  bool fits = false;
  /// What the pools hold; all 0 when there are none.
  Capacity capacity{};
  /// KV budget of a rank; 0 when it is not known.
  Bytes kv_budget{};
  /// Bytes of one more token of a sequence on the smallest rank, over all pools.
  Bytes bytes_per_token{};
  /// Bytes that are missing on a rank.
  Bytes missing{};
  /// Id of the refusal, `usage` or `input` for options that cannot be understood together, or
  /// empty.
  std::string refusal{};
  /// What was refused and why.
  std::string reason{};
};

/// Plans every point of a sweep, on several threads; a point that cannot be planned has its
/// refusal. The order of the results is that of the points, whatever the number of threads.
/// @param threads at least 1
/// @param progress called now and then on the calling thread with the points done
[[nodiscard]] std::vector<SweepPoint> run_points(const Options& options,
                                                 std::span<const SweepAxis> axes,
                                                 const CapabilityRegistry& registry,
                                                 std::size_t threads,
                                                 const std::function<void(std::size_t)>& progress);

}  // namespace kvpool::cli
