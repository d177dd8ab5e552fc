// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>

namespace kvpool {

/// A failed call of the runtime. Out of memory is `kExhausted`; no driver, one that is too old, and
/// no GPU are `kUnsupported`; all else, such as a driver that does not fit its own library, is
/// `kDevice`. Forgets the runtime's last error, unless it is
/// one that stays.
[[nodiscard]] Error cuda_error(std::string_view call, cudaError_t code);

/// `cuda_error` unless the call succeeded.
[[nodiscard]] Result<void> check_cuda(std::string_view call, cudaError_t code);

/// Whether `cudaGetDeviceCount` failed because there is nothing to count: no GPU, or no driver at
/// all. A driver that is there and cannot be used is a failure, and not the absence of GPUs.
/// @param driver_version of `cudaDriverGetVersion`; 0 without a driver
[[nodiscard]] bool means_no_gpu(cudaError_t code, int driver_version) noexcept;

/// Success when the process can use this GPU: then its context is made.
/// @return `kInvalidArgument` for an ordinal that does not exist, `kUnsupported` where none does
[[nodiscard]] Result<void> check_gpu(std::int32_t device);

/// Makes a GPU the calling thread's for a scope.
class DeviceScope {
 public:
  /// @param device an ordinal that `check_gpu` accepted
  explicit DeviceScope(std::int32_t device) noexcept;
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope();

  /// Why the GPU is not the calling thread's; success when it is.
  [[nodiscard]] cudaError_t status() const noexcept { return status_; }

 private:
  int previous_ = -1;
  cudaError_t status_ = cudaSuccess;
};

}  // namespace kvpool
