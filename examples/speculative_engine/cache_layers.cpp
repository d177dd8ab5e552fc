// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "cache_layers.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace example {

using kvpool::Result;

Result<std::vector<CacheLayer>> cache_layers(const kvpool::PoolSet& pools,
                                             std::span<const kvpool::CacheGroup> groups,
                                             bool of_drafter) {
  std::vector<std::pair<kvpool::LayerIndex, CacheLayer>> layers;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const kvpool::CacheGroup& group = groups[g];
    if (group.is_draft != of_drafter) {
      continue;
    }
    const auto in_pool = static_cast<std::size_t>(group.group_in_pool);
    for (const kvpool::LayerGeometry& layer :
         pools.descriptor(group.pool).groups[in_pool].group.layers) {
      const auto cache = kvpool::kernels::cache_operands(pools, group.pool, in_pool, layer.layer);
      if (!cache) {
        return cache.error();
      }
      const bool has_window = group.kind == kvpool::GroupKind::kSlidingWindow;
      layers.emplace_back(
          layer.layer,
          CacheLayer{.cache = *cache,
                     .group = kvpool::GroupId{static_cast<std::int32_t>(g)},
                     .pool = group.pool,
                     .window_left =
                         has_window ? static_cast<std::int32_t>(group.extent.count()) - 1 : -1});
    }
  }
  std::ranges::sort(layers, {}, &std::pair<kvpool::LayerIndex, CacheLayer>::first);
  std::vector<CacheLayer> ordered;
  for (auto& [index, layer] : layers) {
    ordered.push_back(layer);
  }
  return ordered;
}

kvpool::kernels::AppendParams append_params(const CacheLayer& layer, const LayerTensors& tensors,
                                            const std::int64_t* slots, std::int32_t tokens) {
  const kvpool::kernels::CachePair& cache = layer.cache;
  return {.k = tensors.key,
          .v = tensors.value,
          .slot_mapping = slots,
          .k_cache = cache.k,
          .v_cache = cache.v,
          .k_token_stride = std::int64_t{cache.kv_heads} * cache.k.dim,
          .k_head_stride = cache.k.dim,
          .v_token_stride = std::int64_t{cache.kv_heads} * cache.v.dim,
          .v_head_stride = cache.v.dim,
          .tokens = tokens,
          .kv_heads = cache.kv_heads,
          .tokens_per_block = cache.tokens_per_block,
          .source_type = cache.k.type};
}

kvpool::kernels::AttentionParams attention_params(const CacheLayer& layer,
                                                  const LayerTensors& tensors,
                                                  const kvpool::PageTableView& tables,
                                                  const QueryRows& rows) {
  const kvpool::kernels::CachePair& cache = layer.cache;
  kvpool::PageTableView table = tables;
  table.lengths = rows.lengths;
  return {.q = tensors.query,
          .out = tensors.out,
          .q_indptr = rows.q_indptr,
          .table = table,
          .k = cache.k,
          .v = cache.v,
          .q_token_stride = std::int64_t{cache.query_heads} * cache.k.dim,
          .q_head_stride = cache.k.dim,
          .out_token_stride = std::int64_t{cache.query_heads} * cache.v.dim,
          .out_head_stride = cache.v.dim,
          .scale = 1.0F / std::sqrt(static_cast<float>(cache.k.dim)),
          .tokens = rows.tokens,
          .max_query_tokens = rows.most,
          .query_heads = cache.query_heads,
          .kv_heads = cache.kv_heads,
          .window_left = layer.window_left,
          .causal = rows.causal ? 1 : 0,
          .q_type = cache.k.type,
          .out_type = cache.k.type};
}

kvpool::kernels::PageCopyParams copy_params(const kvpool::PoolSet& pools,
                                            const kvpool::CacheGroup& group,
                                            const kvpool::kernels::PageCopyPair* pairs,
                                            std::int32_t count) {
  void* const base = reinterpret_cast<void*>(pools.base(group.pool));  // NOLINT: of a GPU, perhaps
  const std::int64_t unit = pools.descriptor(group.pool).unit_bytes.count();
  return {.source = base,
          .destination = base,
          .pairs = pairs,
          .source_entry_stride_bytes = unit,
          .source_part_stride_bytes = group.page_bytes.count(),
          .destination_entry_stride_bytes = unit,
          .destination_part_stride_bytes = group.page_bytes.count(),
          .part_bytes = group.page_bytes.count(),
          .parts = 1,
          .count = count};
}

}  // namespace example
