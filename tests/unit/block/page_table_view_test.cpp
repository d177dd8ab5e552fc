// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/page_table_view.hpp>

#include "support/catch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kvpool {
namespace {

static_assert(std::is_aggregate_v<PageTableView>);
static_assert(std::is_same_v<decltype(PageTableView::row_stride_entries), std::int64_t>);
static_assert(offsetof(PageTableView, entries) == 0);
static_assert(offsetof(PageTableView, lengths) == 8);
static_assert(offsetof(PageTableView, base_address) == 16);
static_assert(offsetof(PageTableView, row_stride_entries) == 24);
static_assert(offsetof(PageTableView, unit_bytes) == 32);
static_assert(offsetof(PageTableView, rows) == 40);
static_assert(offsetof(PageTableView, tokens_per_block) == 44);

TEST_CASE("an entry is an address in units of the pool", "[block][page_table_view]") {
  // Two sequences of 3 and 1 blocks in a pool whose unit is 16 KiB.
  static constexpr std::array<std::int32_t, 8> kEntries = {5, 9, 1, 0, 2, 0, 0, 0};
  static constexpr std::array<std::int32_t, 2> kLengths = {130, 64};
  constexpr PageTableView kView{.entries = kEntries.data(),
                                .lengths = kLengths.data(),
                                .base_address = 0x7000'0000'0000,
                                .row_stride_entries = 4,
                                .unit_bytes = 16'384,
                                .rows = 2,
                                .tokens_per_block = 64};
  STATIC_REQUIRE(page_address(kView, 0, 0) == 0x7000'0001'4000);
  STATIC_REQUIRE(page_address(kView, 0, 1) == 0x7000'0002'4000);
  STATIC_REQUIRE(page_address(kView, 0, 2) == 0x7000'0000'4000);
  STATIC_REQUIRE(page_address(kView, 1, 0) == 0x7000'0000'8000);
}

TEST_CASE("an address beyond 32 bits of bytes and of units is exact", "[block][page_table_view]") {
  constexpr std::int32_t kLast = 2'147'483'647;
  const PageTableView view{.entries = &kLast,
                           .base_address = 0x1000,
                           .row_stride_entries = 1,
                           .unit_bytes = 81'920,
                           .rows = 1,
                           .tokens_per_block = 32};
  // 2,147,483,647 * 81,920 + 4,096
  CHECK(page_address(view, 0, 0) == 175'921'860'366'336);
}

TEST_CASE("row offsets are 64-bit", "[block][page_table_view]") {
  // Row 70,000 of a table with 65,536 entries a row: entry 4,587,520,000. The table starts that far
  // before the one entry that exists.
  static constexpr std::int32_t kEntry = 3;
  const auto first = reinterpret_cast<std::uintptr_t>(&kEntry) - std::uintptr_t{4'587'520'000} * 4;
  const PageTableView view{.entries = reinterpret_cast<const std::int32_t*>(first),
                           .base_address = 0,
                           .row_stride_entries = 65'536,
                           .unit_bytes = 16,
                           .rows = 70'001,
                           .tokens_per_block = 16};
  CHECK(page_address(view, 70'000, 0) == 48);
}

TEST_CASE("a delta names a row, a column and an entry", "[block][page_table_view]") {
  constexpr PageTableDelta kDelta{.row = 1, .column = 2, .entry = 3};
  STATIC_REQUIRE(kDelta == PageTableDelta{1, 2, 3});
  STATIC_REQUIRE_FALSE(kDelta == PageTableDelta{2, 1, 3});
}

}  // namespace
}  // namespace kvpool
