// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/layout/pool_descriptor.hpp>

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace kvpool {

/// A group of a pool that is made by hand: no layers, only what the block manager reads.
struct HandMadeGroup {
  SpanKind kind = SpanKind::kFull;
  std::int64_t extent = 0;
  bool is_state = false;
  std::int64_t page_bytes = 1024;
};

/// A pool of `slabs` usable slabs.
inline PoolDescriptor hand_made_pool(std::string name, PoolRole role, std::int64_t tokens_per_block,
                                     std::int64_t slabs, const std::vector<HandMadeGroup>& groups,
                                     std::int64_t slab_bytes = 0, std::int64_t reserved = 1) {
  PoolDescriptor pool{.name = std::move(name),
                      .role = role,
                      .granularity = Bytes{1},
                      .slabs = Slabs{slabs},
                      .reserved_slabs = Slabs{reserved}};
  std::int64_t unit = 0;
  for (const HandMadeGroup& group : groups) {
    unit = std::gcd(unit, group.page_bytes);
  }
  pool.unit_bytes = Bytes{unit};
  pool.slab_bytes = Bytes{slab_bytes != 0 ? slab_bytes : groups.front().page_bytes};
  for (const HandMadeGroup& group : groups) {
    PooledGroup pooled;
    pooled.group = {.span = {.kind = group.kind, .extent = Tokens{group.extent}},
                    .is_state = group.is_state};
    pooled.page.tokens_per_block = Tokens{group.is_state ? 0 : tokens_per_block};
    pooled.page.page_bytes = Bytes{group.page_bytes};
    pooled.pages_per_slab = pool.slab_bytes / pooled.page.page_bytes;
    pool.groups.push_back(pooled);
  }
  return pool;
}

}  // namespace kvpool
