// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "host/geometry_pages.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace kvpool::kernels {
namespace {

using Entries = std::vector<std::int64_t>;

/// Layers of one KV head of 64 bf16: K and V of a page of 64 tokens have 16,384 bytes a layer.
LayerGroup group_of(int layers, Span span = {}) {
  LayerGroup group{.span = span};
  for (int i = 0; i < layers; ++i) {
    group.layers.push_back({.layer = LayerIndex{i},
                            .kind = CacheKind::kKeyValue,
                            .kv_heads = Heads{1},
                            .key_dim = 64,
                            .value_dim = 64,
                            .span = span});
  }
  return group;
}

PoolDescriptor pool_of(std::vector<LayerGroup> groups, std::int64_t slabs,
                       PageOrder order = PageOrder::kPageMajor) {
  auto pool = describe_pool({.name = "target",
                             .groups = std::move(groups),
                             .tokens_per_block = Tokens{64},
                             .layout = {.pages = order},
                             .granularity = Bytes{2 << 20},
                             .reserved_slabs = Slabs{1}});
  REQUIRE(pool.has_value());
  pool->slabs = Slabs{slabs};
  return *std::move(pool);
}

TEST_CASE("pages around the 2^31st to 2^34th byte of a pool are looked at", "[geometry]") {
  // 2^31 / 16,384 = 131,072.
  CHECK(boundary_entries(pool_of({group_of(1)}, 2'000'000), 0) ==
        Entries{1, 131'071, 131'072, 131'073, 262'143, 262'144, 262'145, 524'287, 524'288, 524'289,
                1'048'575, 1'048'576, 1'048'577, 2'000'000});
  CHECK(boundary_entries(pool_of({group_of(1)}, 131'072), 0) == Entries{1, 131'071, 131'072});
  CHECK(boundary_entries(pool_of({group_of(1)}, 1), 0) == Entries{1});
  CHECK(boundary_entries(pool_of({group_of(1)}, 0), 0).empty());
}

TEST_CASE("in a layer-major pool they are those of a layer's own range", "[geometry]") {
  CHECK(boundary_entries(pool_of({group_of(2)}, 200'000, PageOrder::kLayerMajor), 0) ==
        Entries{1, 131'071, 131'072, 131'073, 200'000});
}

TEST_CASE("in a slab of several pages they are its first and its last", "[geometry]") {
  // Pages of 32,768 and 49,152 bytes, three and two a slab of 98,304: units of 16,384.
  const PoolDescriptor pool =
      pool_of({group_of(2), group_of(3, {SpanKind::kSlidingWindow, Tokens{1'024}})}, 10);
  REQUIRE(pool.slab_bytes == Bytes{98'304});
  CHECK(boundary_entries(pool, 0) == Entries{6, 10, 60, 64});
  CHECK(boundary_entries(pool, 1) == Entries{6, 9, 60, 63});
}

}  // namespace
}  // namespace kvpool::kernels
