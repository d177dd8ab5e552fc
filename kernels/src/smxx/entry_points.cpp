// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/checks.hpp>
#include <kvpool/kernels/cuda.hpp>

#include "smxx/append/launch.hpp"
#include "smxx/decode_rows/launch.hpp"
#include "smxx/packed_attention/launch.hpp"
#include "smxx/page_copy/launch.hpp"
#include "smxx/simple_attention/launch.hpp"
#include "smxx/table_deltas/launch.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string_view>

namespace kvpool::kernels {
namespace {

cudaStream_t stream_of(StreamHandle stream) { return static_cast<cudaStream_t>(stream.value); }

Result<void> launched(std::string_view kernel, cudaError_t status) {
  if (status == cudaSuccess) {
    return {};
  }
  return Error{.code = ErrorCode::kDevice,
               .message = fmt::format("launching {}: {} ({})", kernel, cudaGetErrorString(status),
                                      cudaGetErrorName(status))};
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

Result<void> attention_on_path(const PathStep& step, const AttentionParams& params,
                               PathCalls& calls, StreamHandle stream) {
  return run_on_path(step, params, calls,
                     [stream](const AttentionParams& on_path, const PackedOptions& options) {
                       return packed_attention(on_path, options, stream);
                     });
}

Result<void> expand_decode_rows(const DecodeRowParams& params, StreamHandle stream) {
  if (auto checked = check(params); !checked) {
    return checked;
  }
  return launched("decode rows", launch_decode_rows(params, stream_of(stream)));
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
