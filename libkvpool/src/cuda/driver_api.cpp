// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver_api.hpp"

#include "core/format.hpp"
#include "cuda/cuda_error.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

namespace kvpool {
namespace {

/// All functions here are older, and have one signature since.
constexpr unsigned int kDriverVersion = 12'000;

template <typename Function>
Result<void> look_up(const char* name, Function& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t code =
      cudaGetDriverEntryPointByVersion(name, &address, kDriverVersion, cudaEnableDefault, &found);
  if (code != cudaSuccess) {
    return cuda_error(fmt::format("looking up {} in the driver", name), code);
  }
  if (found != cudaDriverEntryPointSuccess || address == nullptr) {
    return Error{.code = ErrorCode::kUnsupported,
                 .message = fmt::format("the driver has no {} of CUDA {}.{}", name,
                                        kDriverVersion / 1000, kDriverVersion % 1000 / 10)};
  }
  function = reinterpret_cast<Function>(address);  // NOLINT: POSIX makes functions of addresses
  return {};
}

}  // namespace

Result<DriverApi> DriverApi::load() {
  DriverApi api;
  Result<void> result;
  const auto add = [&result](const char* name, auto& function) {
    if (result) {
      result = look_up(name, function);
    }
  };
  add("cuGetErrorName", api.get_error_name);
  add("cuMemGetAllocationGranularity", api.get_granularity);
  add("cuMemAddressReserve", api.address_reserve);
  add("cuMemAddressFree", api.address_free);
  add("cuMemCreate", api.create);
  add("cuMemRelease", api.release);
  add("cuMemMap", api.map);
  add("cuMemUnmap", api.unmap);
  add("cuMemSetAccess", api.set_access);
  if (!result) {
    return std::move(result).error();
  }
  return api;
}

Error DriverApi::error(std::string_view call, CUresult code) const {
  const char* name = nullptr;
  if (get_error_name(code, &name) != CUDA_SUCCESS || name == nullptr) {
    name = "unknown error";
  }
  ErrorCode kind = ErrorCode::kDevice;
  if (code == CUDA_ERROR_OUT_OF_MEMORY) {
    kind = ErrorCode::kExhausted;
  } else if (code == CUDA_ERROR_NOT_SUPPORTED) {
    kind = ErrorCode::kUnsupported;
  }
  return {.code = kind, .message = fmt::format("{} failed: {}", call, name)};
}

CUmemAllocationProp granule_of(std::int32_t device) noexcept {
  CUmemAllocationProp granule{};
  granule.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  granule.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  granule.location.id = device;
  return granule;
}

Result<Bytes> device_granularity(const DriverApi& driver, std::int32_t device) {
  const CUmemAllocationProp granule = granule_of(device);
  std::size_t bytes = 0;
  if (const CUresult code =
          driver.get_granularity(&bytes, &granule, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
      code != CUDA_SUCCESS) {
    return driver.error("cuMemGetAllocationGranularity", code);
  }
  return Bytes{static_cast<std::int64_t>(bytes)};
}

Result<void> check_plan_granule(Bytes granule, Bytes smallest, std::int32_t device) {
  if (granule % smallest != Bytes{0}) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("the plan counts in granules of {}, but device {} maps "
                                        "granules of {}: plan with a multiple of that",
                                        format_bytes(granule), device, format_bytes(smallest))};
  }
  return {};
}

}  // namespace kvpool
