// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Small pools for tests of the block manager, described by hand.
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/layout/layer_group.hpp>
#include <kvpool/layout/pool_descriptor.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::test {

template <typename T>
T must(Result<T> result) {
  if (!result.has_value()) {
    std::fprintf(stderr, "%s\n", to_string(result.error()).c_str());
    std::abort();
  }
  return std::move(*result);
}

/// `layers` attention layers of one KV head of 8 + 8 bf16 elements: 32 bytes a token and layer.
inline LayerGroup attention_group(Span span = {}, std::int64_t layers = 1) {
  LayerGroup group{.span = span};
  for (std::int64_t i = 0; i < layers; ++i) {
    group.layers.push_back({.layer = LayerIndex{static_cast<std::int32_t>(i)},
                            .query_heads = Heads{1},
                            .kv_heads = Heads{1},
                            .key_dim = 8,
                            .value_dim = 8,
                            .span = span});
  }
  return group;
}
inline LayerGroup full_group(std::int64_t layers = 1) { return attention_group({}, layers); }
inline LayerGroup window_group(std::int64_t tokens, std::int64_t layers = 1) {
  return attention_group({SpanKind::kSlidingWindow, Tokens{tokens}}, layers);
}
inline LayerGroup chunk_group(std::int64_t tokens, std::int64_t layers = 1) {
  return attention_group({SpanKind::kChunked, Tokens{tokens}}, layers);
}
inline LayerGroup cross_group(std::int64_t layers = 1) {
  return attention_group({SpanKind::kCross, Tokens{64}}, layers);
}
/// One MLA layer: records of 24 + 8 elements.
inline LayerGroup mla_group() {
  return {.layers = {{.kind = CacheKind::kLatent,
                      .query_heads = Heads{4},
                      .kv_heads = Heads{1},
                      .key_dim = 24,
                      .value_dim = 8}}};
}
/// One recurrent layer.
inline LayerGroup state_group() {
  return {.is_state = true,
          .layers = {{.kind = CacheKind::kState,
                      .kv_heads = Heads{1},
                      .conv_elements = 32,
                      .matrix_elements = 64}}};
}

/// A pool of `slabs` usable slabs behind one reserved one. @param page 0 for states
inline PoolDescriptor make_pool(std::string name, PoolRole role, std::vector<LayerGroup> groups,
                                std::int64_t page, std::int64_t slabs) {
  PoolDescriptor pool = must(describe_pool({.name = std::move(name),
                                            .role = role,
                                            .groups = std::move(groups),
                                            .tokens_per_block = Tokens{page},
                                            .granularity = Bytes{4096},
                                            .reserved_slabs = Slabs{1}}));
  pool.slabs = Slabs{slabs};
  return pool;
}
inline PoolDescriptor target_pool(std::vector<LayerGroup> groups, std::int64_t page,
                                  std::int64_t slabs) {
  return make_pool("target", PoolRole::kTarget, std::move(groups), page, slabs);
}
inline PoolDescriptor draft_pool(std::vector<LayerGroup> groups, std::int64_t page,
                                 std::int64_t slabs) {
  return make_pool("draft", PoolRole::kDraft, std::move(groups), page, slabs);
}
inline PoolDescriptor state_pool(std::int64_t slots, std::string name = "state") {
  return make_pool(std::move(name), PoolRole::kState, {state_group()}, 0, slots);
}

inline BlockManager make_manager(const std::vector<PoolDescriptor>& pools,
                                 const BlockManagerOptions& options = {}) {
  return must(BlockManager::create(pools, options));
}

/// `count` tokens: first, first + 1, ...
inline std::vector<std::int32_t> tokens_from(std::int32_t first, std::int64_t count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

}  // namespace kvpool::test
