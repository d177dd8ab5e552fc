// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/checks.hpp>
#include <kvpool/kernels/cuda.hpp>

#include "host/field_checker.hpp"
#include "smxx/append/launch.hpp"
#include "smxx/packed_attention/launch.hpp"
#include "smxx/page_copy/launch.hpp"
#include "smxx/simple_attention/launch.hpp"
#include "smxx/table_deltas/launch.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string_view>

namespace kvpool::kernels {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();

cudaStream_t stream_of(StreamHandle stream) { return static_cast<cudaStream_t>(stream.value); }

Result<void> launched(std::string_view kernel, cudaError_t status) {
  if (status == cudaSuccess) {
    return {};
  }
  return Error{.code = ErrorCode::kDevice,
               .message = fmt::format("launching {}: {} ({})", kernel, cudaGetErrorString(status),
                                      cudaGetErrorName(status))};
}

Result<void> check(const PageCopyParams& params) {
  FieldChecker check;
  check.in("count", params.count, 0, kLargest);
  check.in("parts", params.parts, 1, kLargest);
  check.in("part_bytes", params.part_bytes, 1, std::numeric_limits<std::int64_t>::max());
  check.stride("part_bytes", params.part_bytes, kAlignment);
  const std::int64_t least_part_stride = params.parts > 1 ? params.part_bytes : 0;
  check.stride("source_entry_stride_bytes", params.source_entry_stride_bytes, 0);
  check.stride("source_part_stride_bytes", params.source_part_stride_bytes, least_part_stride);
  check.stride("destination_entry_stride_bytes", params.destination_entry_stride_bytes, 0);
  check.stride("destination_part_stride_bytes", params.destination_part_stride_bytes,
               least_part_stride);
  if (params.count > 0) {
    check.aligned("source", params.source, kAlignment);
    check.aligned("destination", params.destination, kAlignment);
    check.aligned("pairs", params.pairs, alignof(PageCopyPair));
  }
  return check.result();
}

Result<void> check(const TableDeltaParams& params) {
  FieldChecker check;
  check.in("delta_capacity", params.delta_capacity, 0, kLargest);
  check.in("rows", params.rows, 0, kLargest);
  if (params.delta_capacity > 0) {
    check.aligned("entries", params.entries, alignof(std::int32_t));
    check.aligned("deltas", params.deltas, alignof(PageTableDelta));
    check.in("row_stride_entries", params.row_stride_entries, 1, kLargest);
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

}  // namespace

Result<void> append(const AppendParams& params, StreamHandle stream) {
  if (auto checked = check(params); !checked) {
    return checked;
  }
  return launched("append", launch_append(params, stream_of(stream)));
}

Result<void> attention(const AttentionParams& params, StreamHandle stream) {
  if (auto checked = check(params); !checked) {
    return checked;
  }
  return launched("attention", simple_attention::launch(params, stream_of(stream)));
}

Result<void> plan_packed_attention(const PackedPlanParams& params, StreamHandle stream) {
  if (auto checked = check(params); !checked) {
    return checked;
  }
  return launched("attention plan", packed::launch_plan(params, stream_of(stream)));
}

Result<void> packed_attention(const AttentionParams& params, const PackedOptions& options,
                              StreamHandle stream) {
  if (auto checked = check_packed(params, options); !checked) {
    return checked;
  }
  return launched("packed attention", packed::launch(params, options, stream_of(stream)));
}

Result<void> copy_pages(const PageCopyParams& params, StreamHandle stream) {
  if (auto checked = check(params); !checked) {
    return checked;
  }
  return launched("page copy", launch_page_copy(params, stream_of(stream)));
}

Result<void> apply_table_deltas(const TableDeltaParams& params, StreamHandle stream) {
  if (auto checked = check(params); !checked) {
    return checked;
  }
  return launched("table deltas", launch_table_deltas(params, stream_of(stream)));
}

}  // namespace kvpool::kernels
