// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "cuda/mapped_regions.hpp"

#include "core/format.hpp"
#include "cuda/cuda_error.hpp"

#include <fmt/format.h>

#include <bit>
#include <utility>

namespace kvpool {
namespace {

std::size_t length(Bytes size) { return static_cast<std::size_t>(size.count()); }

}  // namespace

MappedRegions::~MappedRegions() {
  const DeviceScope scope{device_};
  for (const auto& [address, entry] : table_.regions()) {
    // At the end of the process the driver may be gone, and the memory with it.
    for (const auto& [first, last] : entry.committed) {
      static_cast<void>(driver_.unmap(address + static_cast<std::uintptr_t>(first),
                                      static_cast<std::size_t>(last - first)));
    }
    static_cast<void>(free_addresses({.address = address, .size = entry.size}));
  }
}

std::size_t MappedRegions::slack() const {
  return std::has_single_bit(table_.alignment()) ? 0 : table_.alignment();
}

CUresult MappedRegions::free_addresses(const Region& region) {
  const auto reservation = reservations_.find(region.address);
  const CUresult code = driver_.address_free(reservation->second, length(region.size) + slack());
  if (code == CUDA_SUCCESS) {
    reservations_.erase(reservation);
  }
  return code;
}

Result<void> MappedRegions::map_granule(CUdeviceptr address) {
  const CUmemAllocationProp granule = granule_of(device_);
  const std::size_t size = length(table_.granularity());
  CUmemGenericAllocationHandle handle = 0;
  if (const CUresult code = driver_.create(&handle, size, &granule, 0); code != CUDA_SUCCESS) {
    return driver_.error(fmt::format("cuMemCreate of {}", format_bytes(table_.granularity())),
                         code);
  }
  const CUresult code = driver_.map(address, size, 0, handle, 0);
  static_cast<void>(driver_.release(handle));
  if (code != CUDA_SUCCESS) {
    return driver_.error("cuMemMap", code);
  }
  return {};
}

Result<void> MappedRegions::map(CUdeviceptr begin, std::size_t size) {
  const std::size_t granule = length(table_.granularity());
  std::size_t mapped = 0;
  Result<void> result;
  while (result && mapped < size) {
    result = map_granule(begin + mapped);
    mapped += result ? granule : 0;
  }
  if (result) {
    CUmemAccessDesc access{};
    access.location = granule_of(device_).location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (const CUresult code = driver_.set_access(begin, size, &access, 1); code != CUDA_SUCCESS) {
      result = driver_.error("cuMemSetAccess", code);
    }
  }
  if (!result && mapped > 0) {
    static_cast<void>(driver_.unmap(begin, mapped));
  }
  return result;
}

Result<Region> MappedRegions::reserve(Bytes size) {
  if (auto valid = table_.check_reserve(size); !valid) {
    return std::move(valid).error();
  }
  const DeviceScope scope{device_};
  CUdeviceptr address = 0;
  const CUresult code = driver_.address_reserve(&address, length(size) + slack(),
                                                slack() == 0 ? table_.alignment() : 0, 0, 0);
  if (code != CUDA_SUCCESS) {
    Error error = driver_.error(fmt::format("cuMemAddressReserve of {}", format_bytes(size)), code);
    // The driver calls a size that fits into no address space invalid.
    error.code = code == CUDA_ERROR_INVALID_VALUE ? ErrorCode::kExhausted : error.code;
    return error;
  }
  const std::uint64_t alignment = table_.alignment();
  const Region region{.address = (address + alignment - 1) / alignment * alignment, .size = size};
  table_.add(region);
  reservations_.insert_or_assign(region.address, address);
  return region;
}

Result<void> MappedRegions::commit(const Region& region, Bytes offset, Bytes size) {
  if (auto valid = table_.check_commit(region, offset, size); !valid) {
    return valid;
  }
  const DeviceScope scope{device_};
  if (auto mapped = map(region.address + length(offset), length(size)); !mapped) {
    return mapped;
  }
  table_.commit(region, offset, size);
  return {};
}

Result<void> MappedRegions::decommit(const Region& region, Bytes offset, Bytes size) {
  if (auto valid = table_.check_decommit(region, offset, size); !valid) {
    return valid;
  }
  const DeviceScope scope{device_};
  if (const CUresult code = driver_.unmap(region.address + length(offset), length(size));
      code != CUDA_SUCCESS) {
    return driver_.error("cuMemUnmap", code);
  }
  table_.decommit(region, offset, size);
  return {};
}

Result<void> MappedRegions::release(const Region& region) {
  if (auto valid = table_.check_region(region); !valid) {
    return valid;
  }
  const DeviceScope scope{device_};
  while (true) {
    const auto& committed = table_.regions().find(region.address)->second.committed;
    if (committed.empty()) {
      break;
    }
    const auto [first, last] = *committed.begin();
    if (auto gone = decommit(region, Bytes{first}, Bytes{last - first}); !gone) {
      return gone;
    }
  }
  if (const CUresult code = free_addresses(region); code != CUDA_SUCCESS) {
    return driver_.error("cuMemAddressFree", code);
  }
  table_.remove(region);
  return {};
}

}  // namespace kvpool
