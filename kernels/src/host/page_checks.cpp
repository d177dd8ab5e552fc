// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/checks.hpp>

#include "host/field_checker.hpp"

namespace kvpool::kernels {
namespace {

/// Bytes of all pages of one copy together; far beyond any device, and work items fit into 64 bits.
constexpr std::int64_t kLargestCopy = std::int64_t{1} << 60;

}  // namespace

Result<void> check(const PageCopyParams& params) {
  FieldChecker check;
  check.in("count", params.count, 0, FieldChecker::kLargest);
  check.in("parts", params.parts, 1, FieldChecker::kLargest);
  check.in("part_bytes", params.part_bytes, kAlignment, kLargestCopy);
  check.stride("part_bytes", params.part_bytes, 0);
  if (!check.result()) {
    return check.result();
  }
  const std::int64_t pieces = std::int64_t{params.count} * params.parts;
  if (pieces > kLargestCopy / params.part_bytes) {
    check.fail(ErrorCode::kInvalidArgument, "part_bytes",
               fmt::format(
                   "{} pages of {} pieces of {} bytes are more than 2^60 bytes: copy fewer at once",
                   params.count, params.parts, params.part_bytes));
  }
  // Entries may count in units smaller than a page.
  check.stride("source_entry_stride_bytes", params.source_entry_stride_bytes, kAlignment);
  check.stride("destination_entry_stride_bytes", params.destination_entry_stride_bytes, kAlignment);
  check.stride_over(params.parts, "source_part_stride_bytes", params.source_part_stride_bytes,
                    params.part_bytes);
  check.stride_over(params.parts, "destination_part_stride_bytes",
                    params.destination_part_stride_bytes, params.part_bytes);
  const std::int64_t most_part_stride = kLargestCopy / params.parts;
  check.in("source_part_stride_bytes", params.source_part_stride_bytes, 0, most_part_stride);
  check.in("destination_part_stride_bytes", params.destination_part_stride_bytes, 0,
           most_part_stride);
  if (params.count > 0) {
    check.aligned("source", params.source, kAlignment);
    check.aligned("destination", params.destination, kAlignment);
    check.aligned("pairs", params.pairs, alignof(PageCopyPair));
  }
  return check.result();
}

Result<void> check(const TableDeltaParams& params) {
  FieldChecker check;
  check.in("delta_capacity", params.delta_capacity, 0, FieldChecker::kLargest);
  check.in("rows", params.rows, 0, FieldChecker::kLargest);
  if (params.delta_capacity > 0) {
    check.aligned("entries", params.entries, alignof(std::int32_t));
    check.aligned("deltas", params.deltas, alignof(PageTableDelta));
    check.in("row_stride_entries", params.row_stride_entries, 1, FieldChecker::kLargest);
  }
  if (params.delta_count != nullptr) {
    check.aligned("delta_count", params.delta_count, alignof(std::int32_t));
  }
  if (params.new_lengths != nullptr && params.rows > 0) {
    check.aligned("new_lengths", params.new_lengths, alignof(std::int32_t));
    check.aligned("lengths", params.lengths, alignof(std::int32_t));
  }
  return check.result();
}

}  // namespace kvpool::kernels
