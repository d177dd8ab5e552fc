// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "smxx/append/kernel.cuh"
#include "smxx/append/launch.hpp"
#include "smxx/device/launch.cuh"

#include <cstdint>

namespace kvpool::kernels {

cudaError_t launch_append(const AppendParams& params, cudaStream_t stream) {
  const std::int64_t items = static_cast<std::int64_t>(params.tokens) * params.kv_heads;
  return launch_items(append_kernel, params, items, kAppendWarps, kAppendThreads, stream);
}

}  // namespace kvpool::kernels
