// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/device_memory.hpp>

#include "memory/no_cuda.hpp"

namespace kvpool {

Result<AnyPageMemory> device_memory(std::int32_t device) {
  return no_cuda("cudaMalloc memory", device);
}

}  // namespace kvpool
