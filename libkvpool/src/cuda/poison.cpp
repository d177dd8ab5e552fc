// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/poison.hpp>

#include <cstddef>

namespace kvpool {

Result<void> poison_reserved_pages(const PoolSet& pools, CudaQueue& queue) {
  for (std::size_t i = 0; i < pools.pools().size(); ++i) {
    for (const Region& range : pools.reserved_ranges(PoolId{static_cast<std::int32_t>(i)})) {
      if (auto filled = queue.fill_async(range.address, kPoisonByte, range.size); !filled) {
        return filled;
      }
    }
  }
  return {};
}

}  // namespace kvpool
