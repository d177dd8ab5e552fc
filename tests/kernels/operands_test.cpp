// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/operands.hpp>

#include <kvpool/memory/simulated_memory.hpp>

#include "kernels/planned_batch.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <vector>

namespace kvpool::test {
namespace {

using kernels::CacheOperand;
using kernels::CachePair;

std::int64_t base_of(const PoolSet& pools, PoolId pool, const CacheOperand& operand) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(operand.base) -  // NOLINT
                                   pools.base(pool));
}

LayerGeometry layer_of(std::int32_t layer, std::int64_t heads, std::int64_t key, std::int64_t value,
                       KvDtype dtype = KvDtype::kBf16, Span span = {}) {
  return {.layer = LayerIndex{layer},
          .kind = CacheKind::kKeyValue,
          .dtype = dtype,
          .query_heads = Heads{heads * 2},
          .kv_heads = Heads{heads},
          .key_dim = key,
          .value_dim = value,
          .span = span};
}

PoolSet pools_of(std::vector<LayerGroup> groups, PageLayout layout, std::int64_t slabs = 7) {
  auto pool = describe_pool({.name = "target",
                             .groups = std::move(groups),
                             .tokens_per_block = Tokens{64},
                             .layout = layout,
                             .granularity = Bytes{65'536},
                             .reserved_slabs = Slabs{1}});
  REQUIRE(pool.has_value());
  pool->slabs = Slabs{slabs};
  auto memory = SimulatedMemory::create({.granularity = Bytes{65'536}});
  REQUIRE(memory.has_value());
  auto set = PoolSet::create(std::vector{*pool}, *memory);
  REQUIRE(set.has_value());
  return std::move(*set);
}

CachePair operands(const PoolSet& pools, std::size_t group, std::int32_t layer) {
  const auto pair = kernels::cache_operands(pools, PoolId{0}, group, LayerIndex{layer});
  REQUIRE(pair.has_value());
  return *pair;
}

// Two layers of 2 heads, K and V of 128 bf16: a plane of 64 slots has 32,768 bytes, a page four.
TEST_CASE("operands of K and V, in every layout", "[kernels]") {
  const LayerGroup group{.layers = {layer_of(0, 2, 128, 128), layer_of(5, 2, 128, 128)}};
  SECTION("page-major, heads first") {
    const PoolSet pools = pools_of({group}, {PageOrder::kPageMajor, RowOrder::kHnd});
    const CachePair pair = operands(pools, 0, 5);
    CHECK(base_of(pools, PoolId{0}, pair.k) == 65'536);
    CHECK(base_of(pools, PoolId{0}, pair.v) == 98'304);
    CHECK(pair.k.entry_stride_bytes == 131'072);
    CHECK(pair.k.head_stride_bytes == 16'384);
    CHECK(pair.k.slot_stride_bytes == 256);
    CHECK(pair.v.entry_stride_bytes == 131'072);
    CHECK(pair.k.dim == 128);
    CHECK(pair.kv_heads == 2);
    CHECK(pair.query_heads == 4);
    CHECK(pair.tokens_per_block == 64);
    CHECK_FALSE(pair.v_aliases_k);
  }
  SECTION("page-major, slots first") {
    const PoolSet pools = pools_of({group}, {PageOrder::kPageMajor, RowOrder::kNhd});
    const CachePair pair = operands(pools, 0, 5);
    CHECK(base_of(pools, PoolId{0}, pair.v) == 98'304);
    CHECK(pair.k.head_stride_bytes == 256);
    CHECK(pair.k.slot_stride_bytes == 512);
  }
  SECTION("layer-major: eight pages of the first layer come before the second") {
    const PoolSet pools = pools_of({group}, {PageOrder::kLayerMajor, RowOrder::kHnd});
    const CachePair pair = operands(pools, 0, 5);
    CHECK(base_of(pools, PoolId{0}, pair.k) == 524'288);
    CHECK(base_of(pools, PoolId{0}, pair.v) == 557'056);
    CHECK(pair.k.entry_stride_bytes == 65'536);
    CHECK(pair.v.entry_stride_bytes == 65'536);
  }
}

TEST_CASE("operands of K and V of unequal rows", "[kernels]") {
  const LayerGroup group{.layers = {layer_of(0, 1, 192, 128)}};
  const PoolSet pools = pools_of({group}, {});
  const CachePair pair = operands(pools, 0, 0);
  CHECK(base_of(pools, PoolId{0}, pair.k) == 0);
  CHECK(base_of(pools, PoolId{0}, pair.v) == 24'576);  // 64 * 192 * 2
  CHECK(pair.k.dim == 192);
  CHECK(pair.v.dim == 128);
  CHECK(pair.k.slot_stride_bytes == 384);
  CHECK(pair.v.slot_stride_bytes == 256);
  CHECK(pair.v.entry_stride_bytes == 40'960);
}

TEST_CASE("operands in a pool that groups share count in the pool's unit", "[kernels]") {
  const Span window{SpanKind::kSlidingWindow, Tokens{1'024}};
  const LayerGroup full{.layers = {layer_of(0, 1, 64, 64), layer_of(3, 1, 64, 64)}};
  const LayerGroup sliding{.span = window,
                           .layers = {layer_of(1, 1, 64, 64, KvDtype::kBf16, window),
                                      layer_of(2, 1, 64, 64, KvDtype::kBf16, window),
                                      layer_of(4, 1, 64, 64, KvDtype::kBf16, window)}};
  const PoolSet pools = pools_of({full, sliding}, {});
  // Pages of 32,768 and 49,152 bytes.
  CHECK(operands(pools, 0, 3).k.entry_stride_bytes == 16'384);
  CHECK(operands(pools, 1, 2).k.entry_stride_bytes == 16'384);
  CHECK(base_of(pools, PoolId{0}, operands(pools, 1, 2).v) == 24'576);
}

TEST_CASE("MLA values are the first elements of the records", "[kernels]") {
  LayerGeometry latent = layer_of(2, 1, 512, 64);
  latent.kind = CacheKind::kLatent;
  const PoolSet pools = pools_of({LayerGroup{.layers = {latent}}}, {});
  const CachePair pair = operands(pools, 0, 2);
  CHECK(pair.v_aliases_k);
  CHECK(pair.v.base == pair.k.base);
  CHECK(pair.k.dim == 576);
  CHECK(pair.v.dim == 512);
  CHECK(pair.v.slot_stride_bytes == 1'152);
  CHECK(pair.kv_heads == 1);
}

TEST_CASE("what has no operands is said", "[kernels]") {
  const auto failed = [](const PoolSet& pools, std::int32_t layer) {
    const auto pair = kernels::cache_operands(pools, PoolId{0}, 0, LayerIndex{layer});
    REQUIRE_FALSE(pair.has_value());
    return pair.error();
  };
  const PoolSet bf16 = pools_of({LayerGroup{.layers = {layer_of(0, 1, 64, 64)}}}, {});
  CHECK(failed(bf16, 1).code == ErrorCode::kNotFound);
  const PoolSet packed =
      pools_of({LayerGroup{.layers = {layer_of(0, 1, 64, 64, KvDtype::kNvfp4)}}}, {});
  CHECK(failed(packed, 0).code == ErrorCode::kUnsupported);
  CHECK(failed(packed, 0).value == "nvfp4");
}

TEST_CASE("element types of pool formats", "[kernels]") {
  CHECK(kernels::element_type(KvDtype::kFp16) == kernels::ElementType::kFp16);
  CHECK(kernels::element_type(KvDtype::kFp8E4m3) == kernels::ElementType::kFp8E4m3);
  CHECK_FALSE(kernels::element_type(KvDtype::kInt8PerTokenHead).has_value());
  CHECK_FALSE(kernels::element_type(KvDtype::kFp8DsMla).has_value());
}

}  // namespace
}  // namespace kvpool::test
