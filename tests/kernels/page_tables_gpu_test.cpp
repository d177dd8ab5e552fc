// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/cuda.hpp>

#include "kernels/device_batch.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace kvpool::test {
namespace {

std::vector<std::byte> random_bytes(std::size_t count) {
  std::mt19937 random{3};
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random() & 0xFFU);
  }
  return bytes;
}

TEST_CASE("pages are copied piece by piece and nothing else changes", "[page_copy][sanitize]") {
  const auto layer_major = GENERATE(false, true);
  const auto part_bytes = GENERATE(16, 4096, 16'400, 100'000);
  constexpr std::int64_t kPages = 9;
  constexpr std::int32_t kParts = 3;
  const std::int64_t entry_stride = layer_major ? part_bytes : part_bytes * kParts;
  const std::int64_t part_stride = layer_major ? part_bytes * kPages : part_bytes;
  const auto bytes = random_bytes(static_cast<std::size_t>(kPages * kParts * part_bytes));
  const DeviceBytes pool{bytes};
  const std::vector<kernels::PageCopyPair> copies{{7, 2}, {1, 8}, {7, 3}};
  const DeviceBytes pairs{copies};
  const auto copied = kernels::copy_pages({.source = pool.at(0),
                                           .destination = pool.at(0),
                                           .pairs = pairs.as<kernels::PageCopyPair>(),
                                           .source_entry_stride_bytes = entry_stride,
                                           .source_part_stride_bytes = part_stride,
                                           .destination_entry_stride_bytes = entry_stride,
                                           .destination_part_stride_bytes = part_stride,
                                           .part_bytes = part_bytes,
                                           .parts = kParts,
                                           .count = static_cast<std::int32_t>(copies.size())},
                                          {});
  REQUIRE(copied.has_value());
  auto expected = bytes;
  for (const auto& [source, destination] : copies) {
    for (std::int64_t part = 0; part < kParts; ++part) {
      const auto at = [&](std::int64_t page) {
        return static_cast<std::ptrdiff_t>(page * entry_stride + part * part_stride);
      };
      std::copy_n(bytes.begin() + at(source), part_bytes, expected.begin() + at(destination));
    }
  }
  check_bytes(pool.read(0, bytes.size()), expected);
}

TEST_CASE("table deltas change their places and lengths are overwritten",
          "[table_deltas][sanitize]") {
  constexpr std::int32_t kRows = 300;
  constexpr std::int64_t kColumns = 7;
  std::vector<std::int32_t> entries(kRows * kColumns, 5);
  std::vector<std::int32_t> lengths(kRows, 1);
  std::vector<PageTableDelta> deltas;
  for (std::int32_t row = 0; row < kRows; row += 2) {
    deltas.push_back({.row = row, .column = row % 7, .entry = 1000 + row});
  }
  std::vector<std::int32_t> new_lengths(kRows);
  for (std::int32_t row = 0; row < kRows; ++row) {
    new_lengths[static_cast<std::size_t>(row)] = row * 3;
  }
  const DeviceBytes device_entries{entries};
  const DeviceBytes device_lengths{lengths};
  const DeviceBytes device_deltas{deltas};
  const DeviceBytes device_new_lengths{new_lengths};
  const auto counted = GENERATE(-1, 0, 10, 1'000'000);
  const DeviceBytes count{std::vector<std::int32_t>{counted}};
  const auto with_lengths = GENERATE(false, true);
  const auto applied = kernels::apply_table_deltas(
      {.entries = device_entries.as<std::int32_t>(),
       .lengths = device_lengths.as<std::int32_t>(),
       .deltas = device_deltas.as<PageTableDelta>(),
       .delta_count = counted < 0 ? nullptr : count.as<std::int32_t>(),
       .new_lengths = with_lengths ? device_new_lengths.as<std::int32_t>() : nullptr,
       .row_stride_entries = kColumns,
       .delta_capacity = static_cast<std::int32_t>(deltas.size()),
       .rows = kRows},
      {});
  REQUIRE(applied.has_value());
  for (std::size_t i = 0; i < deltas.size() && (counted != 0) && (counted != 10 || i < 10); ++i) {
    entries[static_cast<std::size_t>(deltas[i].row * kColumns + deltas[i].column)] =
        deltas[i].entry;
  }
  CHECK(device_entries.read<std::int32_t>(0, entries.size()) == entries);
  CHECK(device_lengths.read<std::int32_t>(0, lengths.size()) ==
        (with_lengths ? new_lengths : lengths));
}

TEST_CASE("bad parameters of page copies and table deltas are refused", "[page_copy]") {
  const DeviceBytes bytes{4096};
  kernels::PageCopyParams copy{.source = bytes.at(0),
                               .destination = bytes.at(0),
                               .pairs = bytes.as<kernels::PageCopyPair>(),
                               .source_entry_stride_bytes = 32,
                               .destination_entry_stride_bytes = 32,
                               .part_bytes = 24,
                               .count = 1};
  auto refused = kernels::copy_pages(copy, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().key == "part_bytes");
  copy.part_bytes = 32;
  copy.destination = bytes.at(8);
  refused = kernels::copy_pages(copy, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().key == "destination");
  refused = kernels::apply_table_deltas({.delta_capacity = 1, .rows = 1}, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvpool::test
