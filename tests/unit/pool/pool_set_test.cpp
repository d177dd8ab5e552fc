// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/pool/pool_set.hpp>

#include <kvpool/memory/failing_memory.hpp>
#include <kvpool/memory/host_memory.hpp>
#include <kvpool/memory/limited_memory.hpp>
#include <kvpool/memory/recording_memory.hpp>
#include <kvpool/memory/simulated_memory.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvpool {
namespace {

constexpr Bytes kGranule{2 << 20};

static_assert(std::is_nothrow_move_constructible_v<PoolSet>);
static_assert(!std::is_copy_constructible_v<PoolSet>);

/// Pages of 81,920 bytes: the K3 drafter at TP16.
PoolDescriptor drafter_pool(std::string name, std::int64_t pages, Bytes granularity = kGranule) {
  LayerGroup group;
  for (int i = 0; i < 5; ++i) {
    group.layers.push_back({.layer = LayerIndex{i},
                            .kind = CacheKind::kKeyValue,
                            .kv_heads = Heads{1},
                            .key_dim = 64,
                            .value_dim = 64});
  }
  auto pool = describe_pool({.name = std::move(name),
                             .role = PoolRole::kDraft,
                             .groups = {group},
                             .tokens_per_block = Tokens{64},
                             .granularity = granularity,
                             .reserved_slabs = Slabs{1}});
  REQUIRE(pool.has_value());
  pool->slabs = Slabs{pages};
  pool->groups[0].planned_slabs = Slabs{pages};
  return *pool;
}

AnyPageMemory simulated(Bytes granularity = kGranule) {
  auto memory = SimulatedMemory::create({.granularity = granularity});
  REQUIRE(memory.has_value());
  return AnyPageMemory{*memory};
}

TEST_CASE("the ledger is what the memory holds, to the byte") {
  AnyPageMemory memory = simulated();
  const std::vector pools{drafter_pool("target", 45'440), drafter_pool("draft", 25)};
  const auto set = PoolSet::create(pools, memory);
  REQUIRE(set.has_value());
  REQUIRE(set->ledger().size() == 2);
  CHECK(set->ledger()[0] == PoolCharge{"target", Bytes{3'724'541'952}, Bytes{3'724'541'952}});
  // 26 pages of 81,920 are 2,129,920 bytes: two granules.
  CHECK(set->ledger()[1] == PoolCharge{"draft", Bytes{4'194'304}, Bytes{4'194'304}});
  CHECK(memory.held() == Bytes{3'724'541'952 + 4'194'304});
}

TEST_CASE("memory goes back on destruction and on reset") {
  AnyPageMemory memory = simulated();
  {
    auto set = PoolSet::create(std::vector{drafter_pool("draft", 10)}, memory);
    REQUIRE(set.has_value());
    CHECK(memory.held() == kGranule);
    PoolSet moved = *std::move(set);
    CHECK(memory.held() == kGranule);
    moved.reset();
    CHECK(memory.held() == Bytes{0});
    CHECK(moved.pools().empty());
  }
  CHECK(memory.held() == Bytes{0});
}

TEST_CASE("a moved-from set is empty") {
  AnyPageMemory memory = simulated();
  PoolSet set = PoolSet::create(std::vector{drafter_pool("draft", 10)}, memory).value();
  PoolSet moved = std::move(set);
  // NOLINTBEGIN(bugprone-use-after-move): what the test is about
  CHECK(set.pools().empty());
  CHECK(set.ledger().empty());
  CHECK_FALSE(set.find("draft").has_value());
  set.reset();
  CHECK(memory.held() == kGranule);
  set = std::move(moved);
  CHECK(set.find("draft") == PoolId{0});
  moved.reset();
  // NOLINTEND(bugprone-use-after-move)
  CHECK(memory.held() == kGranule);
}

TEST_CASE("pools are given back newest first") {
  RecordingMemory recording{simulated()};
  {
    const auto set = PoolSet::create(std::vector{drafter_pool("a", 1), drafter_pool("b", 1)},
                                     AnyPageMemory{recording});
    REQUIRE(set.has_value());
    CHECK(set->base(PoolId{0}) != set->base(PoolId{1}));
  }
  std::vector<std::uintptr_t> reserved;
  std::vector<std::uintptr_t> released;
  for (const auto& call : recording.calls()) {
    if (call.operation == MemoryOperation::kReserve) {
      reserved.push_back(call.region.address);
    } else if (call.operation == MemoryOperation::kRelease) {
      released.push_back(call.region.address);
    }
  }
  REQUIRE(reserved.size() == 2);
  std::ranges::reverse(reserved);
  CHECK(released == reserved);
}

TEST_CASE("a failure in the middle gives everything back") {
  AnyPageMemory memory = simulated();
  const auto set = PoolSet::create(std::vector{drafter_pool("a", 1), drafter_pool("b", 1)},
                                   AnyPageMemory{LimitedMemory{memory, kGranule}});
  REQUIRE_FALSE(set.has_value());
  CHECK(set.error().code == ErrorCode::kExhausted);
  CHECK(set.error().key == "b");
  CHECK(memory.held() == Bytes{0});
}

TEST_CASE("granules that the memory does not map are refused") {
  const auto set =
      PoolSet::create(std::vector{drafter_pool("a", 1, Bytes{4096})}, simulated(kGranule));
  REQUIRE_FALSE(set.has_value());
  CHECK(set.error().code == ErrorCode::kInvalidArgument);
  // Whole multiples of the memory's granule can be mapped.
  CHECK(PoolSet::create(std::vector{drafter_pool("a", 1)}, simulated(Bytes{4096})).has_value());
}

TEST_CASE("two pools of one name and a pool without pages are refused") {
  CHECK_FALSE(PoolSet::create(std::vector{drafter_pool("a", 1), drafter_pool("a", 2)}, simulated())
                  .has_value());
  PoolDescriptor empty = drafter_pool("a", 0);
  empty.reserved_slabs = Slabs{0};
  CHECK_FALSE(PoolSet::create(std::vector{empty}, simulated()).has_value());
}

/// Memory that says it holds a granule more than it was asked for.
class GreedyMemory {
 public:
  explicit GreedyMemory(AnyPageMemory upstream) : upstream_{std::move(upstream)} {}
  Result<Region> reserve(Bytes size) { return upstream_.reserve(size); }
  Result<void> commit(const Region& region, Bytes offset, Bytes size) {
    return upstream_.commit(region, offset, size);
  }
  Result<void> decommit(const Region& region, Bytes offset, Bytes size) {
    return upstream_.decommit(region, offset, size);
  }
  Result<void> release(const Region& region) { return upstream_.release(region); }
  [[nodiscard]] Bytes granularity() const { return upstream_.granularity(); }
  [[nodiscard]] Bytes held() const {
    return upstream_.held().count() == 0 ? Bytes{0} : upstream_.held() + kGranule;
  }

 private:
  AnyPageMemory upstream_;
};

TEST_CASE("a pool that would exceed its charge is refused") {
  AnyPageMemory memory = simulated();
  const auto set =
      PoolSet::create(std::vector{drafter_pool("a", 1)}, AnyPageMemory{GreedyMemory{memory}});
  REQUIRE_FALSE(set.has_value());
  CHECK(set.error().code == ErrorCode::kInternal);
  CHECK_THAT(set.error().message, Catch::Matchers::ContainsSubstring("more than were charged"));
  CHECK(memory.held() == Bytes{0});
}

TEST_CASE("views carry addresses, entries count units") {
  const auto set = PoolSet::create(std::vector{drafter_pool("draft", 10)}, simulated());
  REQUIRE(set.has_value());
  const PoolId pool = *set->find("draft");
  CHECK_FALSE(set->find("target").has_value());
  const std::vector<PlacedView> views = set->views(pool, 0);
  REQUIRE(views.size() == 5);
  CHECK(views[3].address == set->base(pool) + 3 * 16'384);
  CHECK(set->entry_address(pool, 7) == set->base(pool) + 7 * 81'920);
  CHECK(set->base(pool) % 256 == 0);
}

TEST_CASE("guard pages of host memory are poisoned, usable ones are not") {
  auto memory = HostMemory::create(kGranule);
  REQUIRE(memory.has_value());
  const auto set = PoolSet::create(std::vector{drafter_pool("draft", 3)}, AnyPageMemory{*memory},
                                   {.poison_reserved_pages = true});
  REQUIRE(set.has_value());
  const auto* bytes = reinterpret_cast<const unsigned char*>(set->base(PoolId{0}));  // NOLINT
  CHECK(std::all_of(bytes, bytes + 81'920, [](unsigned char b) { return b == 0xFF; }));
  CHECK(bytes[81'920] == 0);
}

TEST_CASE("guard pages of a layer-major pool lie at the start of each layer") {
  LayerGroup group;
  for (int i = 0; i < 3; ++i) {
    group.layers.push_back({.layer = LayerIndex{i},
                            .kind = CacheKind::kKeyValue,
                            .kv_heads = Heads{2},
                            .key_dim = 64,
                            .value_dim = 32});
  }
  auto pool = describe_pool({.name = "target",
                             .groups = {group},
                             .tokens_per_block = Tokens{16},
                             .layout = {.pages = PageOrder::kLayerMajor},
                             .granularity = kGranule,
                             .reserved_slabs = Slabs{2}});
  REQUIRE(pool.has_value());
  pool->slabs = Slabs{5};
  // 2 heads x 16 slots x (64 + 32) x 2 B a page and layer.
  CHECK(pool->slab_bytes == Bytes{3 * 6144});
  CHECK(reserved_ranges(*pool) == std::vector<PoolRange>{{Bytes{0}, Bytes{2 * 6144}},
                                                         {Bytes{7 * 6144}, Bytes{2 * 6144}},
                                                         {Bytes{14 * 6144}, Bytes{2 * 6144}}});
  const auto set =
      PoolSet::create(std::vector{*pool}, HostMemory{}, {.poison_reserved_pages = true});
  REQUIRE(set.has_value());
  CHECK(set->reserved_ranges(PoolId{0}).size() == 3);
  for (const PlacedView& placed : set->views(PoolId{0}, 0)) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(placed.address);  // NOLINT
    const std::int64_t row = placed.view.strides[0];
    CHECK(bytes[0] == kPoisonByte);
    CHECK(bytes[row] == kPoisonByte);
    CHECK(bytes[2 * row] == 0);
    CHECK(bytes[6 * row] == 0);
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(set->base(PoolId{0}));  // NOLINT
  CHECK(std::count(bytes, bytes + pool->bytes().count(), kPoisonByte) == 2 * 3 * 6144);
  pool->reserved_slabs = Slabs{0};
  CHECK(reserved_ranges(*pool).empty());
}

}  // namespace
}  // namespace kvpool
