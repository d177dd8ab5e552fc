// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/vmm_memory.hpp>

#include "core/format.hpp"
#include "cuda/cuda_error.hpp"
#include "cuda/driver_api.hpp"
#include "memory/region_table.hpp"

#include <absl/container/btree_map.h>
#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kvpool {
namespace {

std::size_t length(Bytes size) { return static_cast<std::size_t>(size.count()); }

}  // namespace

struct VmmMemory::State {
  State(const DriverApi& api, std::int32_t ordinal, Bytes granularity)
      : driver{api}, device{ordinal}, table{granularity} {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() {
    const DeviceScope scope{device};
    for (const auto& [address, entry] : table.regions()) {
      // At the end of the process the driver may be gone, and the memory with it.
      for (const auto& [first, last] : entry.committed) {
        static_cast<void>(driver.unmap(address + static_cast<std::uintptr_t>(first),
                                       static_cast<std::size_t>(last - first)));
      }
      static_cast<void>(free_addresses({.address = address, .size = entry.size}));
    }
  }

  /// Bytes reserved beside a region so that its start can move up to a granule. The driver aligns
  /// to powers of two by itself.
  [[nodiscard]] std::size_t slack() const {
    return std::has_single_bit(table.alignment()) ? 0 : table.alignment();
  }

  /// Gives the addresses of a region back.
  CUresult free_addresses(const Region& region) {
    const auto reservation = reservations.find(region.address);
    const CUdeviceptr first = reservation->second;
    reservations.erase(reservation);
    return driver.address_free(first, length(region.size) + slack());
  }

  /// Makes a granule and maps it. The mapping alone keeps it: it goes when it is unmapped.
  Result<void> map_granule(CUdeviceptr address) {
    const CUmemAllocationProp granule = granule_of(device);
    const std::size_t size = length(table.granularity());
    CUmemGenericAllocationHandle handle = 0;
    if (const CUresult code = driver.create(&handle, size, &granule, 0); code != CUDA_SUCCESS) {
      return driver.error(fmt::format("cuMemCreate of {}", format_bytes(table.granularity())),
                          code);
    }
    const CUresult code = driver.map(address, size, 0, handle, 0);
    static_cast<void>(driver.release(handle));
    if (code != CUDA_SUCCESS) {
      return driver.error("cuMemMap", code);
    }
    return {};
  }

  /// Backs a range with granules; on failure none stays.
  Result<void> map(CUdeviceptr begin, std::size_t size) {
    const std::size_t granule = length(table.granularity());
    std::size_t mapped = 0;
    Result<void> result;
    while (result && mapped < size) {
      result = map_granule(begin + mapped);
      mapped += result ? granule : 0;
    }
    if (result) {
      CUmemAccessDesc access{};
      access.location = granule_of(device).location;
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      if (const CUresult code = driver.set_access(begin, size, &access, 1); code != CUDA_SUCCESS) {
        result = driver.error("cuMemSetAccess", code);
      }
    }
    if (!result && mapped > 0) {
      static_cast<void>(driver.unmap(begin, mapped));
    }
    return result;
  }

  DriverApi driver;
  std::int32_t device;
  RegionTable table;
  /// Of each live region, what the driver returned: the region's start, or a little before it.
  absl::btree_map<std::uintptr_t, CUdeviceptr> reservations;
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
  if (chosen % *smallest != Bytes{0}) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("the plan counts in granules of {}, but device {} maps "
                                        "granules of {}: plan with a multiple of that",
                                        format_bytes(chosen), device, format_bytes(*smallest))};
  }
  return VmmMemory{std::make_shared<State>(*driver, device, chosen)};
}

Result<Region> VmmMemory::reserve(Bytes size) {
  if (auto valid = state_->table.check_reserve(size); !valid) {
    return std::move(valid).error();
  }
  const DeviceScope scope{state_->device};
  CUdeviceptr address = 0;
  const std::size_t slack = state_->slack();
  const CUresult code = state_->driver.address_reserve(
      &address, length(size) + slack, slack == 0 ? state_->table.alignment() : 0, 0, 0);
  if (code != CUDA_SUCCESS) {
    Error error =
        state_->driver.error(fmt::format("cuMemAddressReserve of {}", format_bytes(size)), code);
    // The driver calls a size that fits into no address space invalid.
    error.code = code == CUDA_ERROR_INVALID_VALUE ? ErrorCode::kExhausted : error.code;
    return error;
  }
  const std::uint64_t alignment = state_->table.alignment();
  const Region region{.address = (address + alignment - 1) / alignment * alignment, .size = size};
  state_->table.add(region);
  state_->reservations.insert_or_assign(region.address, address);
  return region;
}

Result<void> VmmMemory::commit(const Region& region, Bytes offset, Bytes size) {
  if (auto valid = state_->table.check_commit(region, offset, size); !valid) {
    return valid;
  }
  const DeviceScope scope{state_->device};
  if (auto mapped = state_->map(region.address + length(offset), length(size)); !mapped) {
    return mapped;
  }
  state_->table.commit(region, offset, size);
  return {};
}

Result<void> VmmMemory::decommit(const Region& region, Bytes offset, Bytes size) {
  if (auto valid = state_->table.check_decommit(region, offset, size); !valid) {
    return valid;
  }
  const DeviceScope scope{state_->device};
  if (const CUresult code = state_->driver.unmap(region.address + length(offset), length(size));
      code != CUDA_SUCCESS) {
    return state_->driver.error("cuMemUnmap", code);
  }
  state_->table.decommit(region, offset, size);
  return {};
}

Result<void> VmmMemory::release(const Region& region) {
  RegionTable& table = state_->table;
  if (auto valid = table.check_region(region); !valid) {
    return valid;
  }
  const DeviceScope scope{state_->device};
  while (true) {
    const auto& committed = table.regions().find(region.address)->second.committed;
    if (committed.empty()) {
      break;
    }
    const auto [first, last] = *committed.begin();
    if (auto gone = decommit(region, Bytes{first}, Bytes{last - first}); !gone) {
      return gone;
    }
  }
  if (const CUresult code = state_->free_addresses(region); code != CUDA_SUCCESS) {
    return state_->driver.error("cuMemAddressFree", code);
  }
  table.remove(region);
  return {};
}

Bytes VmmMemory::granularity() const { return state_->table.granularity(); }

Bytes VmmMemory::held() const { return state_->table.held(); }

}  // namespace kvpool
