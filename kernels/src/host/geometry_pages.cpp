// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "host/geometry_pages.hpp"

#include <algorithm>

namespace kvpool::kernels {

std::vector<std::int64_t> boundary_entries(const PoolDescriptor& pool, std::size_t group) {
  const PooledGroup& pooled = pool.groups[group];
  const std::int64_t first = pool.reserved_slabs.count();
  const std::int64_t last = pool.total_slabs().count() - 1;
  if (last < first) {
    return {};
  }
  const bool layer_major = pooled.page.layout.pages == PageOrder::kLayerMajor;
  // Distance of two slabs, as the kernels step through them.
  const std::int64_t stride =
      layer_major ? views_of(pool, group).front().strides.front() : pool.slab_bytes.count();
  std::vector<std::int64_t> slabs{first, last};
  for (int power = 31; power <= 34; ++power) {
    const std::int64_t slab = (std::int64_t{1} << power) / stride;
    slabs.insert(slabs.end(), {slab - 1, slab, slab + 1});
  }
  std::erase_if(slabs, [&](std::int64_t slab) { return slab < first || slab > last; });
  std::ranges::sort(slabs);
  slabs.erase(std::ranges::unique(slabs).begin(), slabs.end());
  if (layer_major) {
    return slabs;
  }
  std::vector<std::int64_t> entries;
  const std::int64_t unit = pool.unit_bytes.count();
  for (const std::int64_t slab : slabs) {
    const std::int64_t start = slab * (pool.slab_bytes.count() / unit);
    entries.push_back(start);
    if (pooled.pages_per_slab > 1) {
      entries.push_back(start +
                        (pooled.pages_per_slab - 1) * (pooled.page.page_bytes.count() / unit));
    }
  }
  return entries;
}

}  // namespace kvpool::kernels
