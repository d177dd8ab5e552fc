// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/checks.hpp>
#include <kvpool/kernels/reference.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpool::kernels::reference {
namespace {

Error fault(ErrorCode code, std::string_view field, std::string message) {
  return {.code = code, .message = std::move(message), .key = std::string{field}};
}

Result<void> check_contents(const PageCopyParams& params, std::span<const PageCopyPair> pairs) {
  std::vector<std::int32_t> written;
  for (const PageCopyPair& pair : pairs) {
    if (pair.source < 0 || pair.destination < 0) {
      return fault(ErrorCode::kOutOfRange, "pairs",
                   fmt::format("a page is copied from entry {} to entry {}: entries start at 0",
                               pair.source, pair.destination));
    }
    written.push_back(pair.destination);
  }
  std::ranges::sort(written);
  if (const auto twice = std::ranges::adjacent_find(written); twice != written.end()) {
    return fault(ErrorCode::kInvalidArgument, "pairs",
                 fmt::format("entry {} is written twice", *twice));
  }
  const auto both = std::ranges::find_if(pairs, [&written](const PageCopyPair& pair) {
    return std::ranges::binary_search(written, pair.source);
  });
  if (params.source == params.destination && both != pairs.end()) {
    return fault(ErrorCode::kInvalidArgument, "pairs",
                 fmt::format("entry {} is read and written", both->source));
  }
  return {};
}

using Place = std::pair<std::int32_t, std::int32_t>;

Result<void> check_deltas(const TableDeltaParams& params, std::span<const PageTableDelta> deltas) {
  std::vector<Place> places;
  for (const PageTableDelta& delta : deltas) {
    if (delta.row < 0 || delta.row >= params.rows || delta.column < 0 ||
        delta.column >= params.row_stride_entries || delta.entry < 0) {
      return fault(ErrorCode::kOutOfRange, "deltas",
                   fmt::format("a delta sets row {}, column {} to entry {}: the table has {} rows "
                               "of {} entries, and entries start at 0",
                               delta.row, delta.column, delta.entry, params.rows,
                               params.row_stride_entries));
    }
    places.emplace_back(delta.row, delta.column);
  }
  std::ranges::sort(places);
  if (const auto twice = std::ranges::adjacent_find(places); twice != places.end()) {
    return fault(ErrorCode::kInvalidArgument, "deltas",
                 fmt::format("row {}, column {} changes twice", twice->first, twice->second));
  }
  return {};
}

Result<void> check_lengths(std::span<const std::int32_t> lengths) {
  const auto negative = std::ranges::find_if(lengths, [](std::int32_t n) { return n < 0; });
  if (negative != lengths.end()) {
    return fault(ErrorCode::kOutOfRange, "new_lengths",
                 fmt::format("row {} gets {} tokens", negative - lengths.begin(), *negative));
  }
  return {};
}

}  // namespace

Result<void> copy_pages(const PageCopyParams& params) {
  if (auto checked = check(params); !checked) {
    return checked;
  }
  const std::span pairs{params.pairs, static_cast<std::size_t>(params.count)};
  if (auto checked = check_contents(params, pairs); !checked) {
    return checked;
  }
  for (const PageCopyPair& pair : pairs) {
    const auto* const from = static_cast<const std::byte*>(params.source) +
                             pair.source * params.source_entry_stride_bytes;
    auto* const to = static_cast<std::byte*>(params.destination) +
                     pair.destination * params.destination_entry_stride_bytes;
    for (std::int64_t part = 0; part < params.parts; ++part) {
      std::memcpy(to + part * params.destination_part_stride_bytes,
                  from + part * params.source_part_stride_bytes,
                  static_cast<std::size_t>(params.part_bytes));
    }
  }
  return {};
}

Result<void> apply_table_deltas(const TableDeltaParams& params) {
  if (auto checked = check(params); !checked) {
    return checked;
  }
  const std::int32_t count = params.delta_count == nullptr
                                 ? params.delta_capacity
                                 : std::clamp(*params.delta_count, 0, params.delta_capacity);
  const std::span deltas{params.deltas, static_cast<std::size_t>(count)};
  const std::span lengths{params.new_lengths, params.new_lengths == nullptr
                                                  ? 0U
                                                  : static_cast<std::size_t>(params.rows)};
  if (auto checked = check_deltas(params, deltas); !checked) {
    return checked;
  }
  if (auto checked = check_lengths(lengths); !checked) {
    return checked;
  }
  for (const PageTableDelta& delta : deltas) {
    params.entries[delta.row * params.row_stride_entries + delta.column] = delta.entry;
  }
  std::ranges::copy(lengths, params.lengths);
  return {};
}

}  // namespace kvpool::kernels::reference
