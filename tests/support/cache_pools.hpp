// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Small pools for tests of the block manager and of what is built on it.
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/layout/layer_group.hpp>
#include <kvpool/layout/pool_descriptor.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::test {

/// A pool of one layer for each span: one KV head of 16 bf16 elements, so 64 bytes a token.
inline PoolDescriptor cache_pool(std::string name, PoolRole role, const std::vector<Span>& spans,
                                 std::int64_t tokens_per_block, std::int64_t slabs) {
  std::vector<LayerGeometry> layers;
  for (const Span& span : spans) {
    layers.push_back({.layer = LayerIndex{static_cast<std::int32_t>(layers.size())},
                      .kind = CacheKind::kKeyValue,
                      .query_heads = Heads{1},
                      .kv_heads = Heads{1},
                      .key_dim = 16,
                      .value_dim = 16,
                      .span = span});
  }
  auto pool = describe_pool({.name = std::move(name),
                             .role = role,
                             .groups = group_layers(layers),
                             .tokens_per_block = Tokens{tokens_per_block},
                             .granularity = Bytes{256},
                             .reserved_slabs = Slabs{1}});
  if (!pool) {
    FAIL(to_string(pool.error()));
  }
  pool->slabs = Slabs{slabs};
  for (PooledGroup& group : pool->groups) {
    group.planned_slabs = Slabs{slabs / static_cast<std::int64_t>(pool->groups.size())};
  }
  return *pool;
}

/// A pool of states of 1 KiB.
inline PoolDescriptor state_pool(std::int64_t slots) {
  const LayerGeometry layer{.kind = CacheKind::kState, .kv_heads = Heads{1}, .conv_elements = 512};
  auto pool = describe_pool({.name = "state",
                             .role = PoolRole::kState,
                             .groups = group_layers(std::span{&layer, 1}),
                             .granularity = Bytes{256},
                             .reserved_slabs = Slabs{1}});
  if (!pool) {
    FAIL(to_string(pool.error()));
  }
  pool->slabs = Slabs{slots};
  pool->groups[0].planned_slabs = Slabs{slots};
  return *pool;
}

/// A manager of these pools.
inline BlockManager cache_manager(const std::vector<PoolDescriptor>& pools,
                                  const BlockManagerOptions& options) {
  auto manager = BlockManager::create(pools, options);
  if (!manager) {
    INFO(to_string(manager.error()));
    REQUIRE(manager.has_value());
  }
  return *std::move(manager);
}

/// `count` tokens from `first` on.
inline std::vector<std::int32_t> tokens_from(std::int32_t first, std::int64_t count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// A sequence with this prompt, all of which is committed. @pre it is admitted
inline SequenceId admitted(BlockManager& manager, std::span<const std::int32_t> prompt,
                           DraftMode draft = DraftMode::kRequired) {
  const AdmitOutcome outcome = manager.admit({.prompt = {.tokens = prompt, .draft = draft}});
  REQUIRE(outcome.status == BlockStatus::kOk);
  const Tokens rest = Tokens{static_cast<std::int64_t>(prompt.size())} - outcome.hit.tokens;
  REQUIRE(manager.commit_prompt(outcome.sequence, rest) == BlockStatus::kOk);
  return outcome.sequence;
}

}  // namespace kvpool::test
