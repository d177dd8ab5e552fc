// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/kernel_capability.hpp>
#include <kvpool/plan/pool_plan.hpp>

#include <vector>

namespace kvpool::cli {

/// One attention computation of a deployment and the page of the pool that it reads.
struct KernelUse {
  /// What the rows are asked.
  KernelQuery query;
  /// Page of its pool; 0 when there is none.
  Tokens page;
  /// Layers that compute it.
  std::int64_t layers = 0;
};

/// The computations of a deployment, target first: one per kind of cache.
/// @param resolution what the library settled for `request`
[[nodiscard]] std::vector<KernelUse> kernel_uses(const PlanRequest& request,
                                                 const Resolution& resolution);

}  // namespace kvpool::cli
