// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/device_memory.hpp>
#include <kvpool/cuda/poison.hpp>
#include <kvpool/cuda/vmm_memory.hpp>
#include <kvpool/pool/pool_set.hpp>

#include "gpu_support.hpp"
#include "support/page_memory_suite.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace kvpool {
namespace {

using test::must;

/// A pool of five layers of one KV head of 64: 1,280 bytes a token.
PoolDescriptor pool_of(std::string name, std::int64_t page, std::int64_t pages,
                       PageOrder order = PageOrder::kPageMajor, std::int64_t reserved = 1) {
  LayerGroup group;
  for (int i = 0; i < 5; ++i) {
    group.layers.push_back({.layer = LayerIndex{i},
                            .kind = CacheKind::kKeyValue,
                            .kv_heads = Heads{1},
                            .key_dim = 64,
                            .value_dim = 64});
  }
  PoolDescriptor pool = must(describe_pool({.name = std::move(name),
                                            .groups = {group},
                                            .tokens_per_block = Tokens{page},
                                            .layout = {.pages = order},
                                            .granularity = Bytes{2 << 20},
                                            .reserved_slabs = Slabs{reserved}}));
  pool.slabs = Slabs{pages};
  return pool;
}

AnyPageMemory memory_of(bool virtual_memory) {
  return virtual_memory ? AnyPageMemory{must(VmmMemory::create(0))}
                        : AnyPageMemory{must(DeviceMemory::create(0))};
}

TEST_CASE("target and draft pools of different page sizes live side by side",
          "[gpu][pool][sanitize]") {
  const bool virtual_memory = GENERATE(true, false);
  CAPTURE(virtual_memory);
  AnyPageMemory memory = memory_of(virtual_memory);
  auto queue = must(CudaQueue::create(0));
  const std::vector pools{pool_of("target", 128, 500), pool_of("draft", 32, 700)};
  PoolSet set = must(PoolSet::create(pools, memory));
  CHECK(memory.held() == pools[0].charged_bytes() + pools[1].charged_bytes());
  // Each pool filled to its last byte with its own value.
  for (std::int32_t i = 0; i < 2; ++i) {
    must(queue.fill_async(set.base(PoolId{i}), static_cast<std::uint8_t>(0x40 + i),
                          pools[static_cast<std::size_t>(i)].bytes()));
  }
  for (std::int32_t i = 0; i < 2; ++i) {
    const PoolDescriptor& pool = pools[static_cast<std::size_t>(i)];
    const auto bytes = test::read_bytes(queue, set.base(PoolId{i}),
                                        static_cast<std::size_t>(pool.bytes().count()));
    CHECK(std::ranges::all_of(bytes, [&](std::uint8_t byte) { return byte == 0x40 + i; }));
    CHECK(set.entry_address(PoolId{i}, 3) ==
          set.base(PoolId{i}) + 3 * static_cast<std::uintptr_t>(pool.unit_bytes.count()));
    CHECK(set.views(PoolId{i}, 0).size() == 5);
  }
}

TEST_CASE("reserved pages of a device are poisoned, and only they", "[gpu][pool][sanitize]") {
  const auto order = GENERATE(PageOrder::kPageMajor, PageOrder::kLayerMajor);
  const bool virtual_memory = GENERATE(true, false);
  CAPTURE(order == PageOrder::kLayerMajor, virtual_memory);
  auto queue = must(CudaQueue::create(0));
  const std::vector pools{pool_of("target", 128, 40, order, 2), pool_of("draft", 32, 70, order)};
  const PoolSet set = must(PoolSet::create(pools, memory_of(virtual_memory)));
  for (std::int32_t i = 0; i < 2; ++i) {
    must(queue.fill_async(set.base(PoolId{i}), 0, pools[static_cast<std::size_t>(i)].bytes()));
  }
  must(poison_reserved_pages(set, queue));
  for (std::int32_t i = 0; i < 2; ++i) {
    const PoolDescriptor& pool = pools[static_cast<std::size_t>(i)];
    const auto bytes = test::read_bytes(queue, set.base(PoolId{i}),
                                        static_cast<std::size_t>(pool.bytes().count()));
    const auto poisoned = std::ranges::count(bytes, kPoisonByte);
    CHECK(poisoned == pool.reserved_slabs.count() * pool.slab_bytes.count());
    // By the views: rows below the reserved ones, whole, and none above.
    for (const PlacedView& placed : set.views(PoolId{i}, 0)) {
      const std::uintptr_t first = placed.address - set.base(PoolId{i});
      const auto row = static_cast<std::uintptr_t>(placed.view.strides[0]);
      const auto reserved = static_cast<std::uintptr_t>(pool.reserved_slabs.count());
      CHECK(bytes[first] == kPoisonByte);
      CHECK(bytes[first + (reserved - 1) * row] == kPoisonByte);
      CHECK(bytes[first + reserved * row] == 0);
    }
  }
}

TEST_CASE("a pool set gives its memory back once, whoever has it last", "[gpu][pool]") {
  const bool virtual_memory = GENERATE(true, false);
  CAPTURE(virtual_memory);
  auto queue = must(CudaQueue::create(0));
  const std::vector pools{pool_of("target", 64, 5000), pool_of("draft", 32, 5000)};
  const std::int64_t before = test::free_bytes();
  const auto given_back = [&] { return std::abs(before - test::free_bytes()) <= (4 << 20); };
  {
    PoolSet set = [&] {
      // The handle goes before the set that was made from it.
      const AnyPageMemory memory = memory_of(virtual_memory);
      return must(PoolSet::create(pools, memory));
    }();
    PoolSet moved = std::move(set);
    must(queue.fill_async(moved.base(PoolId{1}), 7, pools[1].bytes()));
    CHECK(test::read_bytes(queue, moved.base(PoolId{1}), 16).front() == 7);
    CHECK_FALSE(given_back());
    moved.reset();
    CHECK(given_back());
    CHECK(moved.pools().empty());
    moved = must(PoolSet::create(pools, memory_of(virtual_memory)));
    CHECK_FALSE(given_back());
    // Assigned over: the old pools go.
    moved = must(PoolSet::create(std::vector{pool_of("other", 64, 1)}, memory_of(virtual_memory)));
    CHECK(moved.pools().size() == 1);
  }
  CHECK(given_back());
}

TEST_CASE("what the device cannot hold leaves nothing behind", "[gpu][pool]") {
  const bool virtual_memory = GENERATE(true, false);
  CAPTURE(virtual_memory);
  AnyPageMemory memory = memory_of(virtual_memory);
  const std::int64_t before = test::free_bytes();
  // 81,920 bytes a page; the second pool is larger than the device.
  const std::int64_t pages = must(gpu_info(0)).total.count() / 81'920 + 1;
  const auto set = PoolSet::create(
      std::vector{pool_of("target", 64, 5000), pool_of("draft", 64, pages)}, memory);
  REQUIRE(test::code_of(set) == ErrorCode::kExhausted);
  CHECK(set.error().key == "draft");
  CHECK(memory.held() == Bytes{0});
  CHECK(std::abs(before - test::free_bytes()) <= (64 << 20));
}

TEST_CASE("a plan of other granules than the memory's is an error that names both", "[gpu][pool]") {
  PoolDescriptor pool = pool_of("target", 64, 10);
  pool.granularity = Bytes{65'536};
  const auto set = PoolSet::create(std::vector{pool}, AnyPageMemory{must(VmmMemory::create(0))});
  REQUIRE(test::code_of(set) == ErrorCode::kInvalidArgument);
  CHECK_THAT(set.error().message, Catch::Matchers::ContainsSubstring("65536"));
  CHECK_THAT(set.error().message, Catch::Matchers::ContainsSubstring("2097152"));
}

}  // namespace
}  // namespace kvpool
