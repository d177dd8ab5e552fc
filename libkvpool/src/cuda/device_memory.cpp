// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/device_memory.hpp>

#include "cuda/driver_api.hpp"
#include "cuda/whole_regions.hpp"

#include <utility>

namespace kvpool {
namespace {

cudaError_t allocate(void** address, std::size_t size) { return cudaMalloc(address, size); }

cudaError_t give_back(void* address) { return cudaFree(address); }

constexpr WholeRegionCalls kCalls{.name = "cudaMalloc", .allocate = &allocate, .free = &give_back};

/// What the device hands out memory in: the driver's granule, where it tells one.
Bytes granule_of_device(std::int32_t device) {
  if (const auto driver = DriverApi::load(); driver) {
    if (const auto granule = device_granularity(*driver, device); granule) {
      return *granule;
    }
  }
  return DeviceMemory::kDefaultGranularity;
}

}  // namespace

struct DeviceMemory::State {
  State(std::int32_t device, Bytes granularity) : regions{kCalls, device, granularity} {}

  WholeRegions regions;
};

DeviceMemory::DeviceMemory(std::shared_ptr<State> state) : state_{std::move(state)} {}

Result<DeviceMemory> DeviceMemory::create(std::int32_t device, Bytes granularity) {
  if (auto valid = WholeRegions::check(device, granularity); !valid) {
    return std::move(valid).error();
  }
  if (auto valid = check_plan_granule(granularity, granule_of_device(device), device); !valid) {
    return std::move(valid).error();
  }
  return DeviceMemory{std::make_shared<State>(device, granularity)};
}

Result<Region> DeviceMemory::reserve(Bytes size) { return state_->regions.reserve(size); }

Result<void> DeviceMemory::commit(const Region& region, Bytes offset, Bytes size) {
  return state_->regions.commit(region, offset, size);
}

Result<void> DeviceMemory::decommit(const Region& region, Bytes offset, Bytes size) {
  return state_->regions.decommit(region, offset, size);
}

Result<void> DeviceMemory::release(const Region& region) { return state_->regions.release(region); }

Bytes DeviceMemory::granularity() const { return state_->regions.granularity(); }

Bytes DeviceMemory::held() const { return state_->regions.held(); }

}  // namespace kvpool
