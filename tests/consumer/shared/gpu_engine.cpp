// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// An engine that takes its pools from a GPU, or says why it cannot.
#include <kvpool/cuda/gpu_info.hpp>
#include <kvpool/cuda/vmm_memory.hpp>

#include <cstdio>

int main() {
  const auto gpus = kvpool::gpu_count();
  if (!gpus) {
    return 1;
  }
  const auto memory = kvpool::VmmMemory::create(0);
  std::printf("%d GPUs: %s\n", *gpus, memory ? "mapped" : memory.error().message.c_str());
  const bool expected = *gpus > 0
                            ? memory.has_value()
                            : !memory && memory.error().code == kvpool::ErrorCode::kUnsupported;
  return expected ? 0 : 1;
}
