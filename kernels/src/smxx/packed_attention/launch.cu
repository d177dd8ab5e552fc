// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "capability_rows.hpp"
#include "host/packed_layout.hpp"
#include "smxx/packed_attention/launch.hpp"
#include "smxx/packed_attention/plan_kernel.cuh"

namespace kvpool::kernels::packed {

cudaError_t launch(const AttentionParams& params, const PackedOptions& options,
                   cudaStream_t stream) {
  if (params.tokens == 0 || params.table.rows == 0) {
    return cudaSuccess;
  }
  const PackedLayout layout = packed_layout(params, options);
  KernelParams kernel = kernel_params(params, layout.m_tiles, merges_in_place(options));
  if (is_one_piece(options.split_tokens, options.max_length)) {
    kernel.workspace = nullptr;  // nothing to merge
  }
  const auto instance = static_cast<std::size_t>(layout.instance - kPackedInstances.data());
  constexpr auto kBf16 = ElementType::kBf16;
  constexpr auto kFp16 = ElementType::kFp16;
  if (params.k.type == kBf16) {
    return params.k.dim == 64 ? launch_for<kBf16, 64>(kernel, instance, stream)
                              : launch_for<kBf16, 128>(kernel, instance, stream);
  }
  return params.k.dim == 64 ? launch_for<kFp16, 64>(kernel, instance, stream)
                            : launch_for<kFp16, 128>(kernel, instance, stream);
}

cudaError_t launch_plan(const PackedPlanParams& params, cudaStream_t stream) {
  if (params.rows == 0) {
    return cudaSuccess;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3{1};
  config.blockDim = dim3{kPlanThreads};
  config.stream = stream;
  const cudaError_t status = cudaLaunchKernelEx(&config, plan_kernel, params, plan_shape(params));
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // reported here, so that nobody finds it again
  }
  return status;
}

}  // namespace kvpool::kernels::packed
