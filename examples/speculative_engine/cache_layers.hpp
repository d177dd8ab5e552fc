// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// From pools and tables to the params of kvpool's kernels: the same for a GPU and for the host,
// whose kernels read the same params.
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/block/page_table_view.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/kernels/operands.hpp>
#include <kvpool/kernels/params.hpp>
#include <kvpool/pool/pool_set.hpp>

#include "model.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace example {

/// Where one layer of a model keeps its keys and values.
struct CacheLayer {
  kvpool::kernels::CachePair cache{};
  kvpool::GroupId group{};
  kvpool::PoolId pool{};
  /// As in `AttentionParams`.
  std::int32_t window_left = -1;
};

/// The layers of the target, or of the drafter, in order.
[[nodiscard]] kvpool::Result<std::vector<CacheLayer>> cache_layers(
    const kvpool::PoolSet& pools, std::span<const kvpool::CacheGroup> groups, bool of_drafter);

/// Tensors of one layer's attention, dense: [tokens, heads, dim], in the format of the cache.
struct LayerTensors {
  const void* query = nullptr;
  const void* key = nullptr;
  const void* value = nullptr;
  void* out = nullptr;
};

/// The query tokens of a pass.
struct QueryRows {
  std::int32_t tokens = 0;
  /// Of the longest row.
  std::int32_t most = 0;
  /// [rows + 1], or null: each row has `most`.
  const std::int32_t* q_indptr = nullptr;
  /// [rows] Tokens that the last query token of each row sees. The tables have lengths, too, but
  /// one for each row: those of the step's last pass.
  const std::int32_t* lengths = nullptr;
  bool causal = true;
};

/// Writing a layer's keys and values. @param slots of the layer's group
[[nodiscard]] kvpool::kernels::AppendParams append_params(const CacheLayer& layer,
                                                          const LayerTensors& tensors,
                                                          const std::int64_t* slots,
                                                          std::int32_t tokens);

/// Attention of a layer. @param tables of the layer's group
[[nodiscard]] kvpool::kernels::AttentionParams attention_params(const CacheLayer& layer,
                                                                const LayerTensors& tensors,
                                                                const kvpool::PageTableView& tables,
                                                                const QueryRows& rows);

/// Copying pages of one group. @param pairs at addresses that the kernel reads
[[nodiscard]] kvpool::kernels::PageCopyParams copy_params(
    const kvpool::PoolSet& pools, const kvpool::CacheGroup& group,
    const kvpool::kernels::PageCopyPair* pairs, std::int32_t count);

}  // namespace example
