// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Launching the instances of one format and one length of rows.
#pragma once

#include "capability_rows.hpp"
#include "smxx/packed_attention/kernel.cuh"
#include "smxx/packed_attention/launch.hpp"
#include "smxx/packed_attention/merge_kernel.cuh"
#include "smxx/packed_attention/traits.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace kvpool::kernels::packed {

/// Enqueues a kernel that may be placed on the device before its predecessors have ended.
/// @param together whether all blocks have to run at the same time; if they cannot, it fails
inline cudaError_t enqueue(void (*kernel)(KernelParams), std::int64_t blocks, int threads,
                           int shared_bytes, bool together, cudaStream_t stream,
                           const KernelParams& params) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeCooperative;
  attributes[1].val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3{static_cast<unsigned>(blocks)};
  config.blockDim = dim3{static_cast<unsigned>(threads)};
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = together ? 2 : 1;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, params);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // reported here, so that nobody finds it again
  }
  return status;
}

/// Enqueues one instance, and the merge kernel where blocks do not merge.
/// @tparam merges whether the instance is compiled for fixed splits
template <typename T, bool merges>
cudaError_t launch_instance(const KernelParams& params, cudaStream_t stream) {
  cudaError_t status =
      cudaFuncSetAttribute(kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSharedBytes);
  if (status == cudaSuccess) {
    status = enqueue(kernel<T>, params.blocks, T::kThreads, T::kSharedBytes,
                     params.exchange != nullptr, stream, params);
  }
  // With a fixed split results must not depend on the batch: instances for many items do not run.
  if constexpr (T::kBlocksPerMultiprocessor == 1 && merges) {
    if (status == cudaSuccess && params.exchange == nullptr && params.workspace != nullptr) {
      const std::int64_t blocks = std::int64_t{params.rows} * params.items_per_row *
                                  (T::kRows * T::kRowUnits / kMergeUnits);
      status = enqueue(merge_kernel<T>, blocks, kMergeThreads, 0, false, stream, params);
    }
  }
  return status;
}

/// The instance at a place of the list, if it is one for this format and these rows.
template <ElementType type, int dim, std::size_t... i>
cudaError_t launch_listed(const KernelParams& params, std::size_t instance, cudaStream_t stream,
                          std::index_sequence<i...> /*instances*/) {
  cudaError_t status = cudaErrorInvalidValue;
  const auto launched = [&]<std::size_t at>() {
    constexpr PackedInstance kInstance = kPackedInstances[at];
    if constexpr (kInstance.type == type && kInstance.dim == dim) {
      if (at == instance) {
        status = launch_instance <
                 Traits<type, dim, kInstance.row_tiles, kInstance.warps, kInstance.stream_warps,
                        kInstance.steps, kInstance.stages, kInstance.blocks>,
        kInstance.least_items != kCandidate > (params, stream);
        return true;
      }
    }
    return false;
  };
  static_cast<void>((launched.template operator()<i>() || ...));
  return status;
}

template <ElementType type, int dim>
cudaError_t launch_for(const KernelParams& params, std::size_t instance, cudaStream_t stream) {
  return launch_listed<type, dim>(params, instance, stream,
                                  std::make_index_sequence<kPackedInstances.size()>{});
}

}  // namespace kvpool::kernels::packed
