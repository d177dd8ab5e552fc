// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace kvpool::kernels::packed {

/// A record of the plan, 16 bytes at a time.
template <typename Record>
__device__ inline Record load_record(const Record* from) {
  constexpr int kParts = static_cast<int>(sizeof(Record) / sizeof(uint4));
  union {
    uint4 parts[kParts];
    Record record;
  } to{};
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    to.parts[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  return to.record;
}

}  // namespace kvpool::kernels::packed
