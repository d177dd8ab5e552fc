// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Small plans for the tests of kvpool::testing, made from the layout alone.
#pragma once

#include <kvpool/layout/pool_descriptor.hpp>
#include <kvpool/plan/pool_plan.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::testing {

inline constexpr Bytes kGranule{2 << 20};

/// Layers with keys and values of 64 elements.
inline std::vector<LayerGeometry> gqa_layers(std::int64_t layers, std::int64_t kv_heads,
                                             KvDtype dtype = KvDtype::kBf16, Span span = {}) {
  std::vector<LayerGeometry> out;
  for (std::int64_t i = 0; i < layers; ++i) {
    LayerGeometry layer{};
    layer.layer = LayerIndex{static_cast<std::int32_t>(i)};
    layer.dtype = dtype;
    layer.query_heads = Heads{6 * kv_heads};
    layer.kv_heads = Heads{kv_heads};
    layer.key_dim = 64;
    layer.value_dim = 64;
    layer.span = span;
    out.push_back(layer);
  }
  return out;
}

/// Layers with an MLA record of 512 + 64 elements.
inline std::vector<LayerGeometry> mla_layers(std::int64_t layers, KvDtype dtype) {
  std::vector<LayerGeometry> out = gqa_layers(layers, 1, dtype);
  for (LayerGeometry& layer : out) {
    layer.kind = CacheKind::kLatent;
    layer.key_dim = 512;
  }
  return out;
}

/// Layers with a recurrent state.
inline std::vector<LayerGeometry> state_layers(std::int64_t layers) {
  std::vector<LayerGeometry> out = gqa_layers(layers, 1, KvDtype::kFp32);
  for (LayerGeometry& layer : out) {
    layer.kind = CacheKind::kState;
    layer.conv_elements = 3'072;
    layer.conv_dtype = KvDtype::kBf16;
    layer.matrix_elements = 128 * 128;
  }
  return out;
}

/// A pool of these layers. All its groups get `slabs` usable slabs each.
inline PoolDescriptor pool(std::string name, PoolRole role,
                           const std::vector<LayerGeometry>& layers, std::int64_t page,
                           std::int64_t slabs, std::int64_t reserved = 1) {
  PoolShape shape{};
  shape.name = std::move(name);
  shape.role = role;
  shape.groups = group_layers(layers);
  shape.tokens_per_block = Tokens{page};
  shape.granularity = kGranule;
  shape.reserved_slabs = Slabs{reserved};
  auto described = describe_pool(shape);
  PoolDescriptor out = described.has_value() ? *std::move(described) : PoolDescriptor{};
  for (PooledGroup& group : out.groups) {
    group.planned_slabs = Slabs{slabs};
    out.slabs += group.planned_slabs;
  }
  return out;
}

/// A rank with these pools.
inline PoolPlan plan_of(std::vector<PoolDescriptor> pools) {
  PoolPlan plan{};
  plan.pools = std::move(pools);
  return plan;
}

/// The draft pool of a DSpark drafter of 5 layers with 16 KV heads over 16 ranks: 45,440 pages of
/// 64 tokens and the guard page.
inline PoolDescriptor dspark_pool() {
  return pool("draft", PoolRole::kDraft, gqa_layers(5, 1), 64, 45'440);
}

}  // namespace kvpool::testing
