// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/memory/page_memory.hpp>

#include <cstdint>
#include <memory>

namespace kvpool {

/// Memory of a GPU, by `cudaMalloc`: one call per region.
///
/// `cudaMalloc` cannot reserve without holding. So the device holds a region whole, from `reserve`
/// to `release`; commit and decommit only keep the books, and `held()` is what the device holds as
/// long as regions are committed whole, which is what a `PoolSet` does. Memory that comes and goes
/// while its addresses stay needs `VmmMemory`. What `cudaMalloc` rounds a size to is not
/// documented: it is charged in whole granules of the plan, 2 MiB unless another is given, and
/// `docs/gpu-runs.md` has what was measured beside that.
///
/// Contents are undefined at first. Regions have to be idle when they are released: `cudaFree`
/// waits for the device. `reserve` is `exhausted` when the device has no memory left.
///
/// Copies are handles of one state. A moved-from one may only be destroyed and assigned to.
class DeviceMemory {
 public:
  /// Granule when none is given, that of NVIDIA devices.
  static constexpr Bytes kDefaultGranularity{2 << 20};

  /// Memory of one GPU.
  /// @param device ordinal of the GPU, from 0
  /// @param granularity of the plan: a multiple of the device's, of at most 1 TiB. The device's is
  ///     the driver's smallest granule of virtual memory, or 2 MiB where it has none
  /// @return `invalid_argument` for an ordinal out of range and for a granularity that the device
  ///     does not have (the message names both), `unsupported` when there is no GPU or no driver
  ///     that fits
  static Result<DeviceMemory> create(std::int32_t device, Bytes granularity = kDefaultGranularity);

  /// See `PageMemory`.
  Result<Region> reserve(Bytes size);
  /// See `PageMemory`.
  Result<void> commit(const Region& region, Bytes offset, Bytes size);
  /// See `PageMemory`.
  Result<void> decommit(const Region& region, Bytes offset, Bytes size);
  /// See `PageMemory`.
  Result<void> release(const Region& region);
  /// See `PageMemory`.
  [[nodiscard]] Bytes granularity() const;
  /// See `PageMemory`.
  [[nodiscard]] Bytes held() const;

 private:
  struct State;
  explicit DeviceMemory(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

static_assert(PageMemory<DeviceMemory>);

}  // namespace kvpool
