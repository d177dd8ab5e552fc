// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// How packed attention's items lie in a batch: what plan, launch and sizes agree on.
#pragma once

#include <kvpool/kernels/attention_params.hpp>
#include <kvpool/kernels/packed_attention.hpp>

#include "capability_rows.hpp"
#include "smxx/packed_attention/schedule.hpp"

#include <cstdint>

namespace kvpool::kernels {

/// Items of each table row.
struct PackedLayout {
  const PackedInstance* instance = nullptr;  ///< null: no kernel
  std::int32_t group = 1;                    ///< query heads of a KV head
  std::int32_t m_tiles = 1;                  ///< tiles of query rows
  std::int32_t items_per_row = 1;            ///< KV heads * tiles
};

/// @pre counts are positive and query heads divide among KV heads
[[nodiscard]] inline PackedLayout packed_layout(ElementType type, std::int32_t dim,
                                                std::int64_t rows, std::int64_t query_tokens,
                                                std::int64_t query_heads, std::int64_t kv_heads,
                                                std::int64_t split_tokens, std::int32_t instance) {
  const std::int64_t group = query_heads / kv_heads;
  const std::int64_t query_rows = query_tokens > 0 ? query_tokens * group : group;
  PackedLayout layout;
  // With a fixed split nothing may depend on the batch.
  const std::int64_t items = split_tokens == 0 ? rows * kv_heads : 0;
  layout.instance = instance < 0 ? packed_instance(type, dim, query_rows, items)
                                 : packed_instance_at(instance, dim);
  layout.group = static_cast<std::int32_t>(group);
  if (layout.instance != nullptr) {
    const std::int64_t tile = std::int64_t{16} * layout.instance->row_tiles;
    layout.m_tiles = static_cast<std::int32_t>((query_rows + tile - 1) / tile);
    layout.items_per_row = static_cast<std::int32_t>(kv_heads * layout.m_tiles);
  }
  return layout;
}

[[nodiscard]] inline PackedLayout packed_layout(const AttentionParams& params,
                                                const PackedOptions& options) {
  return packed_layout(params.k.type, params.k.dim, params.table.rows, params.max_query_tokens,
                       params.query_heads, params.kv_heads, options.split_tokens, options.instance);
}

/// Tiles do not depend on the format.
[[nodiscard]] inline PackedLayout packed_layout(const PackedPlanParams& params) {
  return packed_layout(ElementType::kBf16, params.head_dim, params.rows, params.max_query_tokens,
                       params.query_heads, params.kv_heads, params.split_tokens, params.instance);
}

/// What a plan is made with.
[[nodiscard]] inline packed::PlanShape plan_shape(const PackedPlanParams& params) {
  const PackedLayout layout = packed_layout(params);
  return {.items_per_row = layout.items_per_row,
          .start = packed::start_cost(params.head_dim),
          .split_steps = params.split_tokens / packed::kStep,
          .blocks = params.blocks,
          .aligned_blocks = packed::aligned_blocks(
              params.blocks, std::int64_t{params.rows} * layout.items_per_row)};
}

/// Whether a fixed split leaves every sequence in one piece, so that nothing is merged.
[[nodiscard]] inline bool is_one_piece(std::int64_t split_tokens, std::int64_t max_length) {
  return split_tokens > 0 && max_length <= split_tokens;
}

/// Whether an item's blocks merge it through the exchange, and not a second kernel.
[[nodiscard]] inline bool merges_in_place(const PackedOptions& options) {
  return options.split_tokens == 0;
}

}  // namespace kvpool::kernels
