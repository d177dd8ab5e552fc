// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/region_table.hpp"

#include <absl/container/btree_map.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvpool {

/// Calls of the runtime that allocate whole regions.
struct WholeRegionCalls {
  /// Name of the allocating call, for messages.
  std::string_view name;
  /// Allocates.
  cudaError_t (*allocate)(void** address, std::size_t size);
  /// Gives back.
  cudaError_t (*free)(void* address);
};

/// Regions that are each one allocation of the runtime; commit and decommit keep the books. What
/// `DeviceMemory` and `PinnedMemory` share.
class WholeRegions {
 public:
  /// @pre `check(device, granularity)`
  WholeRegions(const WholeRegionCalls& calls, std::int32_t device, Bytes granularity);
  WholeRegions(const WholeRegions&) = delete;
  WholeRegions& operator=(const WholeRegions&) = delete;
  ~WholeRegions();

  /// Whether there can be such regions.
  [[nodiscard]] static Result<void> check(std::int32_t device, Bytes granularity);

  /// See `PageMemory`.
  Result<Region> reserve(Bytes size);
  /// See `PageMemory`.
  Result<void> commit(const Region& region, Bytes offset, Bytes size);
  /// See `PageMemory`.
  Result<void> decommit(const Region& region, Bytes offset, Bytes size);
  /// See `PageMemory`.
  Result<void> release(const Region& region);
  /// See `PageMemory`.
  [[nodiscard]] Bytes granularity() const { return table_.granularity(); }
  /// See `PageMemory`.
  [[nodiscard]] Bytes held() const { return table_.held(); }

 private:
  WholeRegionCalls calls_;
  std::int32_t device_;
  RegionTable table_;
  /// Of each live region, what the runtime returned: the region's start, or a little before it.
  absl::btree_map<std::uintptr_t, void*> allocations_;
};

}  // namespace kvpool
