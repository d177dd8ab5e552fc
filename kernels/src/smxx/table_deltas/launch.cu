// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "smxx/device/launch.cuh"
#include "smxx/table_deltas/kernel.cuh"
#include "smxx/table_deltas/launch.hpp"

#include <algorithm>
#include <cstdint>

namespace kvpool::kernels {

cudaError_t launch_table_deltas(const TableDeltaParams& params, cudaStream_t stream) {
  const std::int64_t lengths = params.new_lengths == nullptr ? 0 : params.rows;
  const std::int64_t items = std::max<std::int64_t>(params.delta_capacity, lengths);
  return launch_items(table_delta_kernel, params, items, kTableDeltaThreads, kTableDeltaThreads,
                      stream);
}

}  // namespace kvpool::kernels
