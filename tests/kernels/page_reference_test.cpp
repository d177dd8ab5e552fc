// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/reference.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvpool::kernels {
namespace {

/// A pool of 16-byte words, each holding its own number.
struct Words {
  explicit Words(std::size_t count) : bytes(count * 16) {
    for (std::size_t i = 0; i < count; ++i) {
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(i * 16), 16,
                  static_cast<std::uint8_t>(i));
    }
  }
  /// Number of a word; -1 if its bytes differ.
  [[nodiscard]] int at(std::size_t word) const {
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(word * 16);
    return std::all_of(first, first + 16, [&](auto byte) { return byte == *first; }) ? *first : -1;
  }
  [[nodiscard]] std::vector<int> all() const {
    std::vector<int> words;
    for (std::size_t i = 0; i < bytes.size() / 16; ++i) {
      words.push_back(at(i));
    }
    return words;
  }
  std::vector<std::uint8_t> bytes;
};

std::string code_of(const Result<void>& result) {
  return result.has_value()
             ? "none"
             : std::string{to_string(result.error().code)} + " " + result.error().key;
}

TEST_CASE("reference: pages are copied within a page-major pool", "[kernels]") {
  // Five pages of two words.
  Words pool{10};
  const std::array<PageCopyPair, 2> pairs{{{4, 1}, {0, 3}}};
  REQUIRE(code_of(reference::copy_pages({.source = pool.bytes.data(),
                                         .destination = pool.bytes.data(),
                                         .pairs = pairs.data(),
                                         .source_entry_stride_bytes = 32,
                                         .destination_entry_stride_bytes = 32,
                                         .part_bytes = 32,
                                         .count = 2})) == "none");
  CHECK(pool.all() == std::vector{0, 1, 8, 9, 4, 5, 0, 1, 8, 9});
}

TEST_CASE("reference: pages are copied between a layer-major and a page-major pool", "[kernels]") {
  // Three layers of four pages of one word; pages of three words, entries of one.
  const Words source{12};
  Words destination{12};
  const std::array<PageCopyPair, 2> pairs{{{3, 0}, {1, 6}}};
  PageCopyParams params{.source = source.bytes.data(),
                        .destination = destination.bytes.data(),
                        .pairs = pairs.data(),
                        .source_entry_stride_bytes = 16,
                        .source_part_stride_bytes = 64,
                        .destination_entry_stride_bytes = 16,
                        .destination_part_stride_bytes = 16,
                        .part_bytes = 16,
                        .parts = 3,
                        .count = 2};
  REQUIRE(code_of(reference::copy_pages(params)) == "none");
  CHECK(destination.all() == std::vector{3, 7, 11, 3, 4, 5, 1, 5, 9, 9, 10, 11});
  params.count = 0;
  params.pairs = nullptr;
  CHECK(code_of(reference::copy_pages(params)) == "none");
}

TEST_CASE("reference: copies that depend on their order change nothing", "[kernels]") {
  Words pool{4};
  Words other{4};
  const auto copy = [&](const std::vector<PageCopyPair>& pairs, Words& to) {
    return code_of(reference::copy_pages({.source = pool.bytes.data(),
                                          .destination = to.bytes.data(),
                                          .pairs = pairs.data(),
                                          .source_entry_stride_bytes = 16,
                                          .destination_entry_stride_bytes = 16,
                                          .part_bytes = 16,
                                          .count = static_cast<std::int32_t>(pairs.size())}));
  };
  CHECK(copy({{0, 1}, {2, 1}}, pool) == "invalid_argument pairs");
  CHECK(copy({{0, 1}, {1, 2}}, pool) == "invalid_argument pairs");
  CHECK(copy({{0, 1}, {3, -1}}, pool) == "out_of_range pairs");
  CHECK(copy({{0, 1}, {-1, 3}}, pool) == "out_of_range pairs");
  CHECK(pool.all() == std::vector{0, 1, 2, 3});
  // Of another pool the entry that is read is another page.
  CHECK(copy({{0, 1}, {1, 2}}, other) == "none");
  CHECK(other.all() == std::vector{0, 0, 1, 3});
}

/// Two rows of three entries.
struct Table {
  std::vector<std::int32_t> entries = {1, 2, 3, 4, 5, 6};
  std::vector<std::int32_t> lengths = {10, 20};
  std::vector<PageTableDelta> deltas = {{.row = 1, .column = 0, .entry = 40},
                                        {.row = 0, .column = 2, .entry = 30}};
  std::vector<std::int32_t> new_lengths = {11, 0};

  [[nodiscard]] TableDeltaParams params() {
    return {.entries = entries.data(),
            .lengths = lengths.data(),
            .deltas = deltas.data(),
            .new_lengths = new_lengths.data(),
            .row_stride_entries = 3,
            .delta_capacity = static_cast<std::int32_t>(deltas.size()),
            .rows = 2};
  }
};

TEST_CASE("reference: deltas change their places, and lengths are overwritten", "[kernels]") {
  Table table;
  TableDeltaParams params = table.params();
  SECTION("all") {
    REQUIRE(code_of(reference::apply_table_deltas(params)) == "none");
    CHECK(table.entries == std::vector{1, 2, 30, 40, 5, 6});
    CHECK(table.lengths == std::vector{11, 0});
  }
  SECTION("as many as count, and no lengths") {
    const auto count = GENERATE(-3, 0, 1, 2, 1'000'000);
    params.delta_count = &count;
    params.new_lengths = nullptr;
    params.lengths = nullptr;
    REQUIRE(code_of(reference::apply_table_deltas(params)) == "none");
    CHECK(table.entries == std::vector{1, 2, count >= 2 ? 30 : 3, count >= 1 ? 40 : 4, 5, 6});
    CHECK(table.lengths == std::vector{10, 20});
  }
  SECTION("only lengths") {
    params.delta_capacity = 0;
    params.deltas = nullptr;
    params.entries = nullptr;
    REQUIRE(code_of(reference::apply_table_deltas(params)) == "none");
    CHECK(table.lengths == std::vector{11, 0});
  }
}

TEST_CASE("reference: deltas beside the table change nothing", "[kernels]") {
  const auto wrong = GENERATE(PageTableDelta{.row = 2, .column = 0, .entry = 1},
                              PageTableDelta{.row = -1, .column = 0, .entry = 1},
                              PageTableDelta{.row = 0, .column = 3, .entry = 1},
                              PageTableDelta{.row = 0, .column = -1, .entry = 1},
                              PageTableDelta{.row = 0, .column = 0, .entry = -1});
  Table table;
  table.deltas.push_back(wrong);
  CHECK(code_of(reference::apply_table_deltas(table.params())) == "out_of_range deltas");
  table.deltas.back() = {.row = 1, .column = 0, .entry = 9};
  CHECK(code_of(reference::apply_table_deltas(table.params())) == "invalid_argument deltas");
  table.deltas.pop_back();
  table.new_lengths[1] = -1;
  CHECK(code_of(reference::apply_table_deltas(table.params())) == "out_of_range new_lengths");
  CHECK(table.entries == std::vector{1, 2, 3, 4, 5, 6});
  CHECK(table.lengths == std::vector{10, 20});
}

}  // namespace
}  // namespace kvpool::kernels
