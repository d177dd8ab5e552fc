// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The driver's virtual memory on paper: it keeps the books of addresses, mappings and granules,
// notes calls that break the driver's rules, and fails the call it is told to.
#pragma once

#include "cuda/driver_api.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace kvpool::test {

struct FakeDriver {
  /// Granules that a mapping or a handle keeps.
  [[nodiscard]] std::size_t granules() const { return handles.size() + mappings.size(); }

  /// Counts a call. @return whether it fails
  bool fails(const std::string& name) {
    ++calls;
    if (calls == failing_call) {
      failed = name;
    }
    return calls == failing_call;
  }

  /// Ordinal of the call that fails, from 1; 0: none.
  std::int64_t failing_call = 0;
  std::int64_t calls = 0;
  /// Name of the call that failed.
  std::string failed;
  CUresult failure = CUDA_ERROR_OUT_OF_MEMORY;
  /// What a real driver would have refused or crashed on.
  std::vector<std::string> faults;
  std::map<CUdeviceptr, std::size_t> reservations;
  std::map<CUdeviceptr, std::size_t> mappings;
  std::map<CUmemGenericAllocationHandle, std::size_t> handles;
  std::uint64_t next_handle = 1;
  CUdeviceptr next_address = 0x7F00'0000'0000U;

  /// The one that the functions below speak to.
  static FakeDriver*& current() {
    static FakeDriver* driver = nullptr;
    return driver;
  }
};

namespace fake_calls {

inline FakeDriver& driver() { return *FakeDriver::current(); }

inline CUresult get_error_name(CUresult /*code*/, const char** name) {
  *name = "a name";
  return CUDA_SUCCESS;
}

inline CUresult get_granularity(std::size_t* bytes, const CUmemAllocationProp* /*granule*/,
                                CUmemAllocationGranularity_flags /*option*/) {
  if (driver().fails("granularity")) {
    return driver().failure;
  }
  *bytes = std::size_t{2} << 20;
  return CUDA_SUCCESS;
}

inline CUresult address_reserve(CUdeviceptr* address, std::size_t size, std::size_t alignment,
                                CUdeviceptr /*fixed*/, unsigned long long /*flags*/) {
  if (driver().fails("reserve")) {
    return driver().failure;
  }
  if ((alignment & (alignment - 1)) != 0) {
    driver().faults.emplace_back("addresses at multiples of no power of two");
    return CUDA_ERROR_INVALID_VALUE;
  }
  // At a multiple of 2 MiB, and of no more than what was asked for.
  const std::size_t step = alignment == 0 ? std::size_t{2} << 20 : alignment;
  *address = (driver().next_address + step - 1) / step * step;
  driver().reservations.emplace(*address, size);
  driver().next_address = *address + size + (std::size_t{2} << 20);
  return CUDA_SUCCESS;
}

inline CUresult address_free(CUdeviceptr address, std::size_t size) {
  if (driver().fails("address_free")) {
    return driver().failure;
  }
  const auto found = driver().reservations.find(address);
  if (found == driver().reservations.end() || found->second != size) {
    driver().faults.emplace_back("addresses were freed that were not reserved so");
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto mapped = driver().mappings.lower_bound(address);
  if (mapped != driver().mappings.end() && mapped->first < address + size) {
    driver().faults.emplace_back("addresses were freed that are mapped");
  }
  driver().reservations.erase(found);
  return CUDA_SUCCESS;
}

inline CUresult create(CUmemGenericAllocationHandle* handle, std::size_t size,
                       const CUmemAllocationProp* /*granule*/, unsigned long long /*flags*/) {
  if (driver().fails("create")) {
    return driver().failure;
  }
  *handle = driver().next_handle++;
  driver().handles.emplace(*handle, size);
  return CUDA_SUCCESS;
}

inline CUresult release(CUmemGenericAllocationHandle handle) {
  if (driver().fails("release")) {
    return driver().failure;
  }
  if (driver().handles.erase(handle) != 1) {
    driver().faults.emplace_back("a handle was released that is not live");
  }
  return CUDA_SUCCESS;
}

inline CUresult map(CUdeviceptr address, std::size_t size, std::size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long /*flags*/) {
  if (driver().fails("map")) {
    return driver().failure;
  }
  const auto made = driver().handles.find(handle);
  auto inside = driver().reservations.upper_bound(address);
  const bool reserved = inside != driver().reservations.begin() &&
                        address + size <= std::prev(inside)->first + std::prev(inside)->second;
  if (offset != 0 || made == driver().handles.end() || made->second != size || !reserved ||
      !driver().mappings.emplace(address, size).second) {
    driver().faults.emplace_back("a mapping of no granule, outside of a reservation, or over one");
  }
  return CUDA_SUCCESS;
}

inline CUresult unmap(CUdeviceptr address, std::size_t size) {
  if (driver().fails("unmap")) {
    return driver().failure;
  }
  CUdeviceptr at = address;
  while (at < address + size) {
    const auto found = driver().mappings.find(at);
    if (found == driver().mappings.end()) {
      driver().faults.emplace_back("a range was unmapped that is not mapped");
      return CUDA_ERROR_INVALID_VALUE;
    }
    at += found->second;
    driver().mappings.erase(found);
  }
  return CUDA_SUCCESS;
}

inline CUresult set_access(CUdeviceptr address, std::size_t size, const CUmemAccessDesc* access,
                           std::size_t count) {
  if (driver().fails("set_access")) {
    return driver().failure;
  }
  for (CUdeviceptr at = address; at < address + size;) {
    const auto found = driver().mappings.find(at);
    if (found == driver().mappings.end() || count != 1 ||
        access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      driver().faults.emplace_back("access to a range that is not mapped");
      return CUDA_ERROR_INVALID_VALUE;
    }
    at += found->second;
  }
  return CUDA_SUCCESS;
}

}  // namespace fake_calls

/// Functions that speak to `FakeDriver::current()`.
inline DriverApi fake_api() {
  DriverApi api;
  api.get_error_name = &fake_calls::get_error_name;
  api.get_granularity = &fake_calls::get_granularity;
  api.address_reserve = &fake_calls::address_reserve;
  api.address_free = &fake_calls::address_free;
  api.create = &fake_calls::create;
  api.release = &fake_calls::release;
  api.map = &fake_calls::map;
  api.unmap = &fake_calls::unmap;
  api.set_access = &fake_calls::set_access;
  return api;
}

}  // namespace kvpool::test
