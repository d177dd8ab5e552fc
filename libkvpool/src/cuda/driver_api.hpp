// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>

#include <cuda.h>

#include <cstdint>
#include <string_view>

namespace kvpool {

/// The driver's functions for virtual memory, looked up through the runtime, so that programs start
/// where there is no driver.
struct DriverApi {
  decltype(&cuGetErrorName) get_error_name = nullptr;
  decltype(&cuMemGetAllocationGranularity) get_granularity = nullptr;
  decltype(&cuMemAddressReserve) address_reserve = nullptr;
  decltype(&cuMemAddressFree) address_free = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;

  /// Looks all of them up. @return `kUnsupported` when one is missing
  [[nodiscard]] static Result<DriverApi> load();

  /// A failed call of the driver. Out of memory is `kExhausted`, what the device does not have is
  /// `kUnsupported`, all else is `kDevice`.
  [[nodiscard]] Error error(std::string_view call, CUresult code) const;
};

/// How granules of a GPU are made: pinned device memory.
[[nodiscard]] CUmemAllocationProp granule_of(std::int32_t device) noexcept;

/// Smallest granule of a GPU.
[[nodiscard]] Result<Bytes> device_granularity(const DriverApi& driver, std::int32_t device);

/// Whether a plan that counts in `granule` can be charged on a GPU that hands out memory in
/// `smallest`. @return `kInvalidArgument`, naming both, unless it is a multiple
[[nodiscard]] Result<void> check_plan_granule(Bytes granule, Bytes smallest, std::int32_t device);

}  // namespace kvpool
