// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_error.hpp"

#include <fmt/format.h>

namespace kvpool {
namespace {

ErrorCode code_of(cudaError_t code) noexcept {
  switch (code) {
    case cudaErrorMemoryAllocation: return ErrorCode::kExhausted;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorNotSupported: return ErrorCode::kUnsupported;
    default: return ErrorCode::kDevice;
  }
}

}  // namespace

Error cuda_error(std::string_view call, cudaError_t code) {
  static_cast<void>(cudaGetLastError());
  return {.code = code_of(code),
          .message = fmt::format("{} failed: {} ({})", call, cudaGetErrorString(code),
                                 cudaGetErrorName(code))};
}

Result<void> check_cuda(std::string_view call, cudaError_t code) {
  if (code != cudaSuccess) {
    return cuda_error(call, code);
  }
  return {};
}

bool means_no_gpu(cudaError_t code, int driver_version) noexcept {
  // Without a driver the runtime says that the driver, of version 0, is too old.
  return code == cudaErrorNoDevice || (code == cudaErrorInsufficientDriver && driver_version == 0);
}

Result<void> check_gpu(std::int32_t device) {
  if (device < 0) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("device {} does not exist: ordinals start at 0", device)};
  }
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess) {
    Error error = cuda_error("cudaGetDeviceCount", code);
    error.message += "; a GPU and a driver that supports this CUDA runtime are needed";
    return error;
  }
  if (count == 0) {
    return Error{.code = ErrorCode::kUnsupported, .message = "this machine has no GPU"};
  }
  if (device >= count) {
    return Error{
        .code = ErrorCode::kInvalidArgument,
        .message = fmt::format("device {} does not exist: there are {}, from 0", device, count)};
  }
  const DeviceScope scope{device};
  if (auto selected = check_cuda(fmt::format("selecting device {}", device), scope.status());
      !selected) {
    return selected;
  }
  return check_cuda(fmt::format("making the context of device {}", device), cudaFree(nullptr));
}

DeviceScope::DeviceScope(std::int32_t device) noexcept {
  int current = -1;
  status_ = cudaGetDevice(&current);
  if (status_ == cudaSuccess && current != device) {
    status_ = cudaSetDevice(device);
    previous_ = status_ == cudaSuccess ? current : -1;
  }
}

DeviceScope::~DeviceScope() {
  if (previous_ >= 0) {
    static_cast<void>(cudaSetDevice(previous_));
  }
}

}  // namespace kvpool
