// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/gpu_info.hpp>

#include "cuda/cuda_error.hpp"
#include "cuda/driver_api.hpp"

namespace kvpool {

Result<std::int32_t> gpu_count() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess) {
    return count;
  }
  Error error = cuda_error("cudaGetDeviceCount", code);
  int driver_version = 0;
  if (const cudaError_t asked = cudaDriverGetVersion(&driver_version); asked != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    // What cannot be asked is there.
    driver_version = -1;
  }
  if (means_no_gpu(code, driver_version)) {
    return 0;
  }
  error.message += "; install a driver that supports this CUDA runtime";
  return error;
}

Result<GpuInfo> gpu_info(std::int32_t device) {
  if (auto usable = check_gpu(device); !usable) {
    return std::move(usable).error();
  }
  cudaDeviceProp properties{};
  GpuInfo info;
  if (auto read =
          check_cuda("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, device));
      !read) {
    return std::move(read).error();
  }
  if (auto read = check_cuda("cudaDriverGetVersion", cudaDriverGetVersion(&info.driver_version));
      !read) {
    return std::move(read).error();
  }
  if (auto driver = DriverApi::load(); driver) {
    if (auto granularity = device_granularity(*driver, device); granularity) {
      info.granularity = *granularity;
      info.has_virtual_memory = true;
    }
  }
  info.name = properties.name;
  info.architecture = properties.major * 10 + properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  info.total = Bytes{static_cast<std::int64_t>(properties.totalGlobalMem)};
  return info;
}

Result<Bytes> gpu_free_bytes(std::int32_t device) {
  if (auto usable = check_gpu(device); !usable) {
    return std::move(usable).error();
  }
  const DeviceScope scope{device};
  std::size_t free = 0;
  std::size_t total = 0;
  if (auto read = check_cuda("cudaMemGetInfo", cudaMemGetInfo(&free, &total)); !read) {
    return std::move(read).error();
  }
  return Bytes{static_cast<std::int64_t>(free)};
}

}  // namespace kvpool
