// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/vmm_memory.hpp>

#include "memory/no_cuda.hpp"

namespace kvpool {

Result<AnyPageMemory> vmm_memory(std::int32_t device) { return no_cuda("virtual memory", device); }

}  // namespace kvpool
