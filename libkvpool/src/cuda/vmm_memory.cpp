// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/vmm_memory.hpp>

#include "cuda/cuda_error.hpp"
#include "cuda/driver_api.hpp"
#include "cuda/mapped_regions.hpp"

#include <cstdint>
#include <utility>

namespace kvpool {

struct VmmMemory::State {
  State(const DriverApi& driver, std::int32_t device, Bytes granularity)
      : regions{driver, device, granularity} {}

  MappedRegions regions;
};

VmmMemory::VmmMemory(std::shared_ptr<State> state) : state_{std::move(state)} {}

Result<VmmMemory> VmmMemory::create(std::int32_t device, std::optional<Bytes> granularity) {
  if (auto usable = check_gpu(device); !usable) {
    return std::move(usable).error();
  }
  auto driver = DriverApi::load();
  if (!driver) {
    return std::move(driver).error();
  }
  const auto smallest = device_granularity(*driver, device);
  if (!smallest) {
    return smallest.error();
  }
  const Bytes chosen = granularity.value_or(*smallest);
  if (auto valid = RegionTable::check_granularity(chosen); !valid) {
    return std::move(valid).error();
  }
  if (auto valid = check_plan_granule(chosen, *smallest, device); !valid) {
    return std::move(valid).error();
  }
  return VmmMemory{std::make_shared<State>(*driver, device, chosen)};
}

Result<Region> VmmMemory::reserve(Bytes size) { return state_->regions.reserve(size); }

Result<void> VmmMemory::commit(const Region& region, Bytes offset, Bytes size) {
  return state_->regions.commit(region, offset, size);
}

Result<void> VmmMemory::decommit(const Region& region, Bytes offset, Bytes size) {
  return state_->regions.decommit(region, offset, size);
}

Result<void> VmmMemory::release(const Region& region) { return state_->regions.release(region); }

Bytes VmmMemory::granularity() const { return state_->regions.granularity(); }

Bytes VmmMemory::held() const { return state_->regions.held(); }

}  // namespace kvpool
