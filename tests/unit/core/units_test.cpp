// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/core/units.hpp>

#include <kvpool/core/ids.hpp>

#include "support/catch.hpp"

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace kvpool {
namespace {

using namespace kvpool::literals;

template <typename A, typename B>
concept Addable = requires(A a, B b) { a + b; };
template <typename A, typename B>
concept Subtractable = requires(A a, B b) { a - b; };
template <typename A, typename B>
concept Comparable = requires(A a, B b) { a < b; };
template <typename A, typename B>
concept Divisible = requires(A a, B b) { a / b; };
template <typename A, typename B>
concept Multipliable = requires(A a, B b) { a* b; };

static_assert(Addable<Bytes, Bytes>);
static_assert(!Addable<Pages, Tokens>);
static_assert(!Addable<Bytes, Pages>);
static_assert(!Addable<Bytes, std::int64_t>);
static_assert(!Subtractable<Pages, Tokens>);
static_assert(!Comparable<Pages, Tokens>);
static_assert(!Comparable<Bytes, std::int64_t>);
static_assert(!Divisible<Bytes, Pages>);
static_assert(!Multipliable<Bytes, Bytes>);
static_assert(Multipliable<Bytes, std::int64_t>);
static_assert(!std::convertible_to<std::int64_t, Bytes>);
static_assert(!std::convertible_to<Bytes, std::int64_t>);
static_assert(!std::is_constructible_v<Tokens, Pages>);

static_assert(!Addable<PageId, PageId>);
static_assert(!Addable<PageId, std::int32_t>);
static_assert(!Subtractable<BlockIndex, BlockIndex>);
static_assert(!Comparable<PageId, BlockIndex>);
static_assert(!Comparable<PoolId, GroupId>);
static_assert(!std::convertible_to<std::int32_t, PageId>);
static_assert(!std::is_constructible_v<PageId, PoolId>);
static_assert(sizeof(PageId) == 4 && sizeof(BlockIndex) == 8 && sizeof(Epoch) == 8);
static_assert(std::is_trivially_copyable_v<Bytes> && sizeof(Bytes) == 8);

TEST_CASE("quantities of one unit add, subtract, scale and divide", "[core][units]") {
  STATIC_REQUIRE(5_MiB + 3_MiB == 8_MiB);
  STATIC_REQUIRE(5_MiB - 8_MiB == Bytes{-3'145'728});
  STATIC_REQUIRE(64_tokens * 3 == 192_tokens);
  STATIC_REQUIRE(3 * 64_tokens == 192_tokens);
  STATIC_REQUIRE(200_tokens / 64_tokens == 3);
  STATIC_REQUIRE(200_tokens % 64_tokens == 8_tokens);
  STATIC_REQUIRE(Pages{} == 0_pages);
  STATIC_REQUIRE(1_pages < 2_pages);
  Bytes sum = 1_KiB;
  sum += 1_B;
  sum -= 25_B;
  CHECK(sum == Bytes{1000});
}

TEST_CASE("literals are powers of 1024", "[core][units]") {
  STATIC_REQUIRE((7_B).count() == 7);
  STATIC_REQUIRE((1_KiB).count() == 1024);
  STATIC_REQUIRE((1_MiB).count() == 1'048'576);
  STATIC_REQUIRE((141_GiB).count() == 151'397'597'184);
}

TEST_CASE("rounding up is exact at the ends", "[core][units]") {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  STATIC_REQUIRE(ceil_div(0, 64) == 0);
  STATIC_REQUIRE(ceil_div(1, 64) == 1);
  STATIC_REQUIRE(ceil_div(64, 64) == 1);
  STATIC_REQUIRE(ceil_div(65, 64) == 2);
  STATIC_REQUIRE(ceil_div(kMax, 2) == 4'611'686'018'427'387'904);
  STATIC_REQUIRE(ceil_div(kMax, kMax) == 1);
  STATIC_REQUIRE(pages_ceil(0_tokens, 64_tokens) == 0_pages);
  STATIC_REQUIRE(pages_ceil(1_tokens, 64_tokens) == 1_pages);
  STATIC_REQUIRE(pages_ceil(997'696_tokens, 32_tokens) == 31'178_pages);
  STATIC_REQUIRE(align_up(Bytes{3'722'526'720}, 2_MiB) == Bytes{3'724'541'952});
  STATIC_REQUIRE(align_up(4_MiB, 2_MiB) == 4_MiB);
}

TEST_CASE("ids compare and keep their value", "[core][ids]") {
  STATIC_REQUIRE(PageId{} == PageId{0});
  STATIC_REQUIRE(PageId{3} < PageId{4});
  STATIC_REQUIRE(Epoch{18'446'744'073'709'551'615U}.value() == 18'446'744'073'709'551'615U);
  STATIC_REQUIRE(SequenceId{.index = 1, .generation = 2} ==
                 SequenceId{.index = 1, .generation = 2});
  STATIC_REQUIRE_FALSE(SequenceId{.index = 1, .generation = 2} == SequenceId{.index = 1});
}

}  // namespace
}  // namespace kvpool
