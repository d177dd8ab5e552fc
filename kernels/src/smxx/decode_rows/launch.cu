// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "smxx/decode_rows/kernel.cuh"
#include "smxx/decode_rows/launch.hpp"
#include "smxx/device/launch.cuh"

namespace kvpool::kernels {

cudaError_t launch_decode_rows(const DecodeRowParams& params, cudaStream_t stream) {
  const std::int64_t items = params.tokens == 0 ? 0 : params.rows * decode_row_parts(params);
  return launch_items(decode_row_kernel, params, items, 1, kDecodeRowThreads, stream);
}

}  // namespace kvpool::kernels
