// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/validate_geometry_cuda.hpp>

#include <kvpool/cuda/device_memory.hpp>
#include <kvpool/kernels/cuda.hpp>

#include <cuda_runtime_api.h>

#include <utility>

namespace kvpool::kernels {
namespace {

/// Kernels are launched on the calling thread's device.
class DeviceSelection {
 public:
  explicit DeviceSelection(int device) {
    if (cudaGetDevice(&previous_) != cudaSuccess || cudaSetDevice(device) != cudaSuccess) {
      previous_ = -1;
    }
  }
  DeviceSelection(const DeviceSelection&) = delete;
  DeviceSelection& operator=(const DeviceSelection&) = delete;
  ~DeviceSelection() {
    if (previous_ >= 0) {
      static_cast<void>(cudaSetDevice(previous_));
    }
  }

 private:
  int previous_ = -1;
};

}  // namespace

Result<GeometryReport> validate_geometry(const PoolSet& pools, CudaQueue queue) {
  auto scratch = DeviceMemory::create(queue.device());
  if (!scratch) {
    return std::move(scratch).error();
  }
  const DeviceSelection selection{queue.device()};
  const StreamHandle stream = queue.stream();
  return validate_geometry(
      pools,
      {.append = [stream](const AppendParams& params) { return append(params, stream); },
       .attention = [stream](const AttentionParams& params) { return attention(params, stream); },
       .queue = AnyDeviceQueue{std::move(queue)},
       .scratch = AnyPageMemory{*scratch}});
}

}  // namespace kvpool::kernels
