// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/driver_api.hpp"
#include "memory/region_table.hpp"

#include <absl/container/btree_map.h>

#include <cstddef>
#include <cstdint>

namespace kvpool {

/// Regions whose addresses are reserved once and mapped granule by granule: what `VmmMemory` is
/// made of. It knows the driver by its functions alone.
class MappedRegions {
 public:
  /// @param driver every function is set
  /// @param device an ordinal that `check_gpu` accepted
  /// @param granularity a multiple of the device's. @pre
  /// RegionTable::check_granularity(granularity)
  MappedRegions(const DriverApi& driver, std::int32_t device, Bytes granularity)
      : driver_{driver}, device_{device}, table_{granularity} {}
  MappedRegions(const MappedRegions&) = delete;
  MappedRegions& operator=(const MappedRegions&) = delete;
  ~MappedRegions();

  /// See `PageMemory`.
  Result<Region> reserve(Bytes size);
  /// See `PageMemory`. On failure nothing stays mapped.
  Result<void> commit(const Region& region, Bytes offset, Bytes size);
  /// See `PageMemory`. On failure the range stays committed.
  Result<void> decommit(const Region& region, Bytes offset, Bytes size);
  /// See `PageMemory`. On failure the region stays reserved, and can be released again.
  Result<void> release(const Region& region);
  /// See `PageMemory`.
  [[nodiscard]] Bytes granularity() const { return table_.granularity(); }
  /// See `PageMemory`.
  [[nodiscard]] Bytes held() const { return table_.held(); }

 private:
  /// Bytes reserved beside a region so that its start can move up to a granule. The driver aligns
  /// to powers of two by itself.
  [[nodiscard]] std::size_t slack() const;
  /// Gives the addresses of a region back.
  CUresult free_addresses(const Region& region);
  /// Makes a granule and maps it. The mapping alone keeps it: it goes when it is unmapped.
  Result<void> map_granule(CUdeviceptr address);
  /// Backs a range with granules; on failure none stays.
  Result<void> map(CUdeviceptr begin, std::size_t size);

  DriverApi driver_;
  std::int32_t device_;
  RegionTable table_;
  /// Of each live region, what the driver returned: the region's start, or a little before it.
  absl::btree_map<std::uintptr_t, CUdeviceptr> reservations_;
};

}  // namespace kvpool
