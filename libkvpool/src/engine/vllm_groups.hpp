// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/checked.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/engine/engine_request.hpp>

#include "engine/cache_slices.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace kvpool::detail {

/// Layers that share one block table in vLLM.
struct VllmGroup {
  /// Indexes of the members among the slices.
  std::vector<std::size_t> members{};
  /// Empty places of the group's bucket, noted at its first group.
  std::int64_t padding = 0;
  /// Layers of the bucket.
  std::int64_t bucket = 0;
  /// Tokens of a block; 0 for states.
  std::int64_t tokens_per_block = 0;
};

/// How vLLM divides layers into groups.
struct VllmLayout {
  /// The groups, in the order in which their kinds occur.
  std::vector<VllmGroup> groups{};
  /// True for one group of layers of different sizes, each charged exactly.
  bool uniform = false;
  /// Bytes of a layer's place in a block id, when not uniform.
  std::int64_t page = 0;
  /// Bytes of one block id over a stage's layers: the largest stage.
  std::int64_t block_bytes = 0;
  /// The stage that it belongs to.
  std::int64_t stage = 0;
  /// A page that does not divide the largest one is padded.
  bool padded_pages = false;

  /// True if a slice lives on the largest stage.
  [[nodiscard]] bool on_stage(const CacheSlice& slice, const EngineRequest& request) const noexcept;
};

/// Block of the attention layers and bytes of a state.
struct VllmBlock {
  /// Tokens of an attention block.
  std::int64_t tokens = 16;
  /// Bytes of the largest state, draft columns included; 0 without states.
  std::int64_t state_bytes = 0;
  /// Bytes of a page of the attention layer that the block was derived from; 0 without states.
  std::int64_t page = 0;
};

/// The block of a model: the asked one, or with recurrent layers a multiple of it whose page holds
/// a state.
/// @param draft_columns tokens drafted in a step
[[nodiscard]] Result<VllmBlock> vllm_block(std::span<const CacheSlice> target, std::int64_t asked,
                                           std::int64_t draft_columns);

/// Groups the layers.
/// @param draft_columns tokens drafted in a step
[[nodiscard]] Result<VllmLayout> vllm_layout(std::span<const CacheSlice> slices,
                                             const EngineRequest& request, const VllmBlock& block,
                                             std::int64_t draft_columns);

}  // namespace kvpool::detail
