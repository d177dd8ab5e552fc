// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/layout/parallelism.hpp>

#include <algorithm>

namespace kvpool {

StageLayers stage_layers(std::int64_t layers, std::int64_t stages, std::int64_t stage) noexcept {
  const std::int64_t base = layers / stages;
  const std::int64_t extra = layers % stages;
  // Stages [stages - 1 - extra, stages - 1) get one layer more; with extra < stages the last never.
  const std::int64_t first_extra = stages - 1 - extra;
  const std::int64_t extras_before = std::clamp<std::int64_t>(stage - first_extra, 0, extra);
  const bool has_extra = stage >= first_extra && stage < stages - 1;
  return {.first = base * stage + extras_before, .count = base + (has_extra ? 1 : 0)};
}

}  // namespace kvpool
