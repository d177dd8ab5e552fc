// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/page_pool.hpp>

#include "manager_pools.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace kvpool {
namespace {

PagePool simple_pool(std::int64_t slabs, PagePoolOptions options = {}) {
  return *PagePool::create(hand_made_pool("target", PoolRole::kTarget, 16, slabs, {{}}), options);
}

/// Slabs of 4096 bytes: 2 pages of group 0, or 4 of group 1.
PagePool shared_pool(std::int64_t slabs) {
  return *PagePool::create(hand_made_pool("target", PoolRole::kTarget, 16, slabs,
                                          {{.page_bytes = 2048}, {.page_bytes = 1024}}, 4096),
                           {});
}

static_assert(noexcept(std::declval<PagePool&>().allocate(0)));
static_assert(noexcept(std::declval<PagePool&>().free(0, PageId{0})));

TEST_CASE("a pool hands out every page but the reserved ones, once", "[block][page_pool]") {
  PagePool pool = simple_pool(5);
  std::set<std::int32_t> pages;
  for (int i = 0; i < 5; ++i) {
    const auto page = pool.allocate(0);
    REQUIRE(page.has_value());
    pages.insert(page->value());
  }
  CHECK(pages == std::set<std::int32_t>{1, 2, 3, 4, 5});
  CHECK_FALSE(pool.allocate(0).has_value());
  CHECK(pool.live_pages(0) == Pages{5});
  CHECK(pool.free_pages(0) == Pages{0});
}

TEST_CASE("the page given back last is handed out first", "[block][page_pool]") {
  PagePool pool = simple_pool(5);
  const PageId first = *pool.allocate(0);
  const PageId second = *pool.allocate(0);
  REQUIRE(pool.free(0, first));
  REQUIRE(pool.free(0, second));
  CHECK(pool.allocate(0) == second);
  CHECK(pool.allocate(0) == first);
}

TEST_CASE("a page waits for the epochs that were open when it was given back",
          "[block][page_pool]") {
  PagePool pool = simple_pool(1);
  const PageId page = *pool.allocate(0);
  pool.open_epoch(Epoch{7});
  pool.open_epoch(Epoch{8});
  REQUIRE(pool.free(0, page));
  CHECK_FALSE(pool.allocate(0).has_value());
  CHECK(pool.unsettled_pages() == Pages{1});
  CHECK(pool.next_settled() == Epoch{8});
  pool.complete_until(Epoch{7});
  CHECK_FALSE(pool.allocate(0).has_value());
  pool.complete_until(Epoch{8});
  CHECK(pool.allocate(0) == page);
  CHECK_FALSE(pool.next_settled().has_value());
}

TEST_CASE("more open epochs than are kept apart only delay", "[block][page_pool]") {
  PagePool pool = simple_pool(200);
  for (std::uint64_t epoch = 1; epoch <= 200; ++epoch) {
    const PageId page = *pool.allocate(0);
    pool.open_epoch(Epoch{epoch});
    REQUIRE(pool.free(0, page));
  }
  CHECK(pool.unsettled_pages() == Pages{200});
  pool.complete_until(Epoch{10});
  CHECK(pool.unsettled_pages() == Pages{190});
  pool.complete_until(Epoch{200});
  CHECK(pool.free_pages(0) == Pages{200});
}

TEST_CASE("a page cannot be given back twice, and its last owner is known", "[block][page_pool]") {
  PagePool pool = simple_pool(4, {.record_owners = true});
  pool.open_epoch(Epoch{3});
  pool.complete_until(Epoch{3});
  pool.set_owner({.index = 5, .generation = 2});
  const PageId page = *pool.allocate(0);
  CHECK(pool.owner(page) ==
        PageOwner{.sequence = {.index = 5, .generation = 2}, .is_live = true, .step = Epoch{3}});
  pool.open_epoch(Epoch{4});
  CHECK(pool.free(0, page));
  CHECK_FALSE(pool.free(0, page));
  CHECK_FALSE(pool.free(0, PageId{0}));
  CHECK_FALSE(pool.free(0, PageId{-1}));
  CHECK_FALSE(pool.free(0, PageId{1'000'000}));
  CHECK(pool.owner(page) ==
        PageOwner{.sequence = {.index = 5, .generation = 2}, .is_live = false, .step = Epoch{4}});
  CHECK_FALSE(simple_pool(4).owner(page).has_value());
}

TEST_CASE("groups share slabs, and an empty slab belongs to nobody", "[block][page_pool]") {
  PagePool pool = shared_pool(2);
  CHECK(pool.free_pages(0) == Pages{4});
  CHECK(pool.free_pages(1) == Pages{8});
  const PageId large = *pool.allocate(0);
  // Units of 1024 bytes; slab 0 is reserved.
  CHECK(large == PageId{4});
  CHECK(pool.free_pages(1) == Pages{4});
  std::vector<PageId> small;
  for (int i = 0; i < 4; ++i) {
    small.push_back(*pool.allocate(1));
  }
  CHECK(small == std::vector<PageId>{PageId{8}, PageId{9}, PageId{10}, PageId{11}});
  CHECK_FALSE(pool.allocate(1).has_value());
  CHECK(pool.allocate(0) == PageId{6});
  CHECK_FALSE(pool.allocate(0).has_value());
  // A page of the wrong group, or the middle of one, is nobody's.
  CHECK_FALSE(pool.free(1, large));
  CHECK_FALSE(pool.free(0, PageId{5}));
  for (const PageId page : small) {
    CHECK(pool.free(1, page));
  }
  CHECK(pool.free_slabs() == Slabs{1});
  CHECK(pool.allocate(0).has_value());
}

TEST_CASE("a slab with a page that waits stays with its group", "[block][page_pool]") {
  PagePool pool = shared_pool(1);
  const PageId page = *pool.allocate(0);
  pool.open_epoch(Epoch{1});
  REQUIRE(pool.free(0, page));
  CHECK_FALSE(pool.allocate(1).has_value());
  CHECK(pool.free_slabs() == Slabs{0});
  pool.complete_until(Epoch{1});
  CHECK(pool.free_slabs() == Slabs{1});
  CHECK(pool.allocate(1).has_value());
}

TEST_CASE("a gate refuses pages, and hooks see them", "[block][page_pool]") {
  struct Seen {
    bool open = false;
    std::vector<std::int32_t> taken;
    std::vector<std::int32_t> freed;
  } seen;
  PagePool pool = simple_pool(
      3,
      {.gate = {.admits = [](void* at, PoolId,
                             std::int32_t) { return static_cast<Seen*>(at)->open; },
                .context = &seen},
       .on_free = {.call = [](void* at, PoolId, PageId page,
                              Bytes) { static_cast<Seen*>(at)->freed.push_back(page.value()); },
                   .context = &seen},
       .on_allocate = {.call = [](void* at, PoolId, PageId page,
                                  Bytes) { static_cast<Seen*>(at)->taken.push_back(page.value()); },
                       .context = &seen}});
  CHECK_FALSE(pool.allocate(0).has_value());
  seen.open = true;
  const PageId page = *pool.allocate(0);
  pool.open_epoch(Epoch{1});
  REQUIRE(pool.free(0, page));
  CHECK(seen.freed.empty());
  pool.complete_until(Epoch{1});
  CHECK(seen.taken == std::vector{page.value()});
  CHECK(seen.freed == seen.taken);
}

TEST_CASE("a pool that is not laid out, or too large for its entries, is refused",
          "[block][page_pool]") {
  CHECK(PagePool::create(PoolDescriptor{}, {}).error().code == ErrorCode::kInvalidArgument);
  const auto large = hand_made_pool("target", PoolRole::kTarget, 16,
                                    std::numeric_limits<std::int32_t>::max(), {{}});
  CHECK(PagePool::create(large, {}).error().code == ErrorCode::kOutOfRange);
  const auto huge = hand_made_pool("target", PoolRole::kTarget, 16,
                                   std::numeric_limits<std::int64_t>::max() - 1, {{}});
  CHECK(PagePool::create(huge, {}).error().code == ErrorCode::kOutOfRange);
}

}  // namespace
}  // namespace kvpool
