// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "cuda/whole_regions.hpp"

#include "core/format.hpp"
#include "cuda/cuda_error.hpp"

#include <fmt/format.h>

namespace kvpool {

WholeRegions::WholeRegions(const WholeRegionCalls& calls, std::int32_t device, Bytes granularity)
    : calls_{calls}, device_{device}, table_{granularity} {}

WholeRegions::~WholeRegions() {
  const DeviceScope scope{device_};
  for (const auto& [address, allocation] : allocations_) {
    // At the end of the process the driver may be gone, and the memory with it.
    static_cast<void>(calls_.free(allocation));
  }
}

Result<void> WholeRegions::check(std::int32_t device, Bytes granularity) {
  if (auto valid = RegionTable::check_granularity(granularity); !valid) {
    return valid;
  }
  if (granularity % kRegionAlignment != Bytes{0}) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("a granule of {} is not a multiple of {}",
                                        format_bytes(granularity), format_bytes(kRegionAlignment))};
  }
  return check_gpu(device);
}

Result<Region> WholeRegions::reserve(Bytes size) {
  if (auto valid = table_.check_reserve(size); !valid) {
    return std::move(valid).error();
  }
  const DeviceScope scope{device_};
  const auto bytes = static_cast<std::size_t>(size.count());
  const auto alignment = static_cast<std::size_t>(table_.alignment());
  void* allocation = nullptr;
  cudaError_t code = calls_.allocate(&allocation, bytes);
  auto address = reinterpret_cast<std::uintptr_t>(allocation);  // NOLINT: what a region is
  if (code == cudaSuccess && address % alignment != 0) {
    // The runtime promises less than a granule. Allocate again, with room to move the start.
    static_cast<void>(calls_.free(allocation));
    code = calls_.allocate(&allocation, bytes + alignment);
    address = reinterpret_cast<std::uintptr_t>(allocation);  // NOLINT: as above
    address = (address + alignment - 1) / alignment * alignment;
  }
  if (code != cudaSuccess) {
    return cuda_error(fmt::format("{} of {}", calls_.name, format_bytes(size)), code);
  }
  const Region region{.address = address, .size = size};
  table_.add(region);
  allocations_.insert_or_assign(address, allocation);
  return region;
}

Result<void> WholeRegions::commit(const Region& region, Bytes offset, Bytes size) {
  if (auto valid = table_.check_commit(region, offset, size); !valid) {
    return valid;
  }
  table_.commit(region, offset, size);
  return {};
}

Result<void> WholeRegions::decommit(const Region& region, Bytes offset, Bytes size) {
  if (auto valid = table_.check_decommit(region, offset, size); !valid) {
    return valid;
  }
  table_.decommit(region, offset, size);
  return {};
}

Result<void> WholeRegions::release(const Region& region) {
  if (auto valid = table_.check_region(region); !valid) {
    return valid;
  }
  const DeviceScope scope{device_};
  const auto allocation = allocations_.find(region.address);
  if (auto freed = check_cuda("giving memory back", calls_.free(allocation->second)); !freed) {
    return freed;
  }
  allocations_.erase(allocation);
  table_.remove(region);
  return {};
}

}  // namespace kvpool
