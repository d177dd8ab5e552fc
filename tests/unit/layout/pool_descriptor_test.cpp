// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/layout/pool_descriptor.hpp>

#include "support/catch.hpp"

#include <array>
#include <numeric>
#include <vector>

namespace kvpool {
namespace {

constexpr Bytes kMiB{1 << 20};

LayerGroup drafter_group(int layers = 5) {
  LayerGroup group;
  for (int i = 0; i < layers; ++i) {
    group.layers.push_back({.layer = LayerIndex{i},
                            .kind = CacheKind::kKeyValue,
                            .dtype = KvDtype::kBf16,
                            .kv_heads = Heads{1},
                            .key_dim = 64,
                            .value_dim = 64});
  }
  return group;
}

PoolShape drafter_shape(std::int64_t reserved) {
  return {.name = "draft",
          .role = PoolRole::kDraft,
          .groups = {drafter_group()},
          .tokens_per_block = Tokens{64},
          .granularity = Bytes{2 << 20},
          .reserved_slabs = Slabs{reserved}};
}

PoolDescriptor drafter_pool(std::int64_t reserved, std::int64_t pages) {
  auto pool = describe_pool(drafter_shape(reserved));
  REQUIRE(pool.has_value());
  pool->slabs = Slabs{pages};
  pool->groups[0].planned_slabs = Slabs{pages};
  return *pool;
}

TEST_CASE("45,440 pages of the K3 drafter are 1,775 granules exactly") {
  const PoolDescriptor pool = drafter_pool(0, 45'440);
  CHECK(pool.bytes() == Bytes{3'722'444'800});
  CHECK(pool.charged_bytes() == Bytes{3'722'444'800});
  CHECK(pool.charged_bytes() / pool.granularity == 1'775);
  CHECK(pool.slab_waste() == Bytes{0});
}

TEST_CASE("the default guard page adds a row and a granule") {
  const PoolDescriptor pool = drafter_pool(1, 45'440);
  CHECK(pool.bytes() == Bytes{3'722'526'720});
  CHECK(pool.charged_bytes() == Bytes{3'724'541'952});
  CHECK(views_of(pool, 0).front().shape == std::vector<std::int64_t>{45'441, 2, 1, 64, 64});
}

TEST_CASE("every layer is exported as one tensor of K and V") {
  const std::vector<TensorView> views = views_of(drafter_pool(0, 45'440), 0);
  REQUIRE(views.size() == 5);
  for (std::size_t i = 0; i < views.size(); ++i) {
    CHECK(views[i].shape == std::vector<std::int64_t>{45'440, 2, 1, 64, 64});
    CHECK(views[i].strides == std::vector<std::int64_t>{81'920, 8'192, 8'192, 128, 2});
    CHECK(views[i].offset == Bytes{static_cast<std::int64_t>(i) * 16'384});
  }
}

TEST_CASE("a layer-major pool has one contiguous tensor per layer") {
  PoolShape shape = drafter_shape(0);
  shape.layout.pages = PageOrder::kLayerMajor;
  auto pool = describe_pool(shape);
  REQUIRE(pool.has_value());
  pool->slabs = Slabs{100};
  const std::vector<TensorView> views = views_of(*pool, 0);
  REQUIRE(views.size() == 5);
  CHECK(views[1].offset == Bytes{100 * 16'384});
  CHECK(views[1].strides == std::vector<std::int64_t>{16'384, 8'192, 8'192, 128, 2});
}

TEST_CASE("K and V of different width are two tensors") {
  LayerGroup group = drafter_group(1);
  group.layers[0].value_dim = 128;
  auto pool = describe_pool(
      {.name = "target", .groups = {group}, .tokens_per_block = Tokens{16}, .granularity = kMiB});
  REQUIRE(pool.has_value());
  pool->slabs = Slabs{10};
  const std::vector<TensorView> views = views_of(*pool, 0);
  REQUIRE(views.size() == 2);
  CHECK(views[0].shape == std::vector<std::int64_t>{10, 1, 16, 64});
  CHECK(views[1].shape == std::vector<std::int64_t>{10, 1, 16, 128});
  CHECK(views[1].kind == PlaneKind::kValue);
}

TEST_CASE("records and packed formats are seen as bytes") {
  LayerGroup group{.layers = {{.kind = CacheKind::kLatent,
                               .dtype = KvDtype::kFp8DsMla,
                               .kv_heads = Heads{1},
                               .key_dim = 512,
                               .value_dim = 64}}};
  auto pool = describe_pool(
      {.name = "target", .groups = {group}, .tokens_per_block = Tokens{64}, .granularity = kMiB});
  REQUIRE(pool.has_value());
  pool->slabs = Slabs{3};
  CHECK(views_of(*pool, 0).front().shape == std::vector<std::int64_t>{3, 64, 656});
  CHECK(views_of(*pool, 0).front().strides == std::vector<std::int64_t>{41'984, 656, 1});
}

TEST_CASE("one page size needs no larger slab") {
  CHECK(shared_slab(std::array{Bytes{4096}, Bytes{4096}}) == Bytes{4096});
}

TEST_CASE("the shared slab is the smallest that wastes at most one percent") {
  // Pages of 10 and 52 units: 210 units waste 2 of 210 (0.95 %) for the larger one.
  constexpr std::int64_t kUnit = 65'536;
  CHECK(shared_slab(std::array{Bytes{10 * kUnit}, Bytes{52 * kUnit}}) == Bytes{210 * kUnit});
}

TEST_CASE("a slab above 64 MiB is none") {
  constexpr std::int64_t kUnit = 524'288;
  CHECK_FALSE(shared_slab(std::array{Bytes{10 * kUnit}, Bytes{52 * kUnit}}).has_value());
}

TEST_CASE("the shared slab is minimal, by brute force over every multiple of 16") {
  for (std::int64_t a = 16; a <= 16 * 24; a += 16) {
    for (std::int64_t b = 16; b <= 16 * 24; b += 16) {
      std::int64_t slab = std::max(a, b);
      while (slab % a * 100 > slab || slab % b * 100 > slab) {
        slab += 16;
      }
      INFO("pages " << a << " and " << b);
      REQUIRE(shared_slab(std::array{Bytes{a}, Bytes{b}}) == Bytes{slab});
    }
  }
}

TEST_CASE("table entries count the greatest common divisor of the pages") {
  CHECK(unit_of(std::array{Bytes{10 * 512}, Bytes{52 * 512}}) == Bytes{2 * 512});
  CHECK(unit_of(std::array{Bytes{81'920}}) == Bytes{81'920});
}

TEST_CASE("groups of a shared pool are addressed in its unit") {
  LayerGroup window = drafter_group(2);
  window.span = {SpanKind::kSlidingWindow, Tokens{128}};
  auto pool = describe_pool({.name = "target",
                             .groups = {drafter_group(4), window},
                             .tokens_per_block = Tokens{64},
                             .granularity = kMiB});
  REQUIRE(pool.has_value());
  CHECK(pool->slab_bytes == Bytes{4 * 16'384});
  CHECK(pool->unit_bytes == Bytes{2 * 16'384});
  CHECK(pool->groups[0].pages_per_slab == 1);
  CHECK(pool->groups[1].pages_per_slab == 2);
  pool->slabs = Slabs{10};
  // The last row whose page still ends inside the pool: (10 * 64 KiB - 64 KiB) / 32 KiB + 1.
  CHECK(views_of(*pool, 0).front().shape.front() == 19);
  CHECK(views_of(*pool, 0).front().strides.front() == 2 * 16'384);
  CHECK(views_of(*pool, 1).front().shape.front() == 20);
}

TEST_CASE("a pool without layers and a layer-major pool of two groups are refused") {
  CHECK_FALSE(describe_pool({.name = "empty", .granularity = kMiB}).has_value());
  LayerGroup window = drafter_group(1);
  window.span = {SpanKind::kSlidingWindow, Tokens{128}};
  CHECK_FALSE(describe_pool({.name = "two",
                             .groups = {drafter_group(1), window},
                             .tokens_per_block = Tokens{64},
                             .layout = {.pages = PageOrder::kLayerMajor},
                             .granularity = kMiB})
                  .has_value());
}

}  // namespace
}  // namespace kvpool
