// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/reference.hpp>
#include <kvpool/kernels/validate_geometry.hpp>
#include <kvpool/memory/host_memory.hpp>
#include <kvpool/memory/host_queue.hpp>

namespace kvpool::kernels {

Result<GeometryReport> validate_geometry_on_host(const PoolSet& pools) {
  return validate_geometry(
      pools,
      {.append = [](const AppendParams& params) { return reference::append(params); },
       .attention = [](const AttentionParams& params) { return reference::attention(params); },
       .queue = HostQueue{},
       .scratch = HostMemory{}});
}

}  // namespace kvpool::kernels
