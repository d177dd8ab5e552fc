// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/memory/page_memory.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace kvpool {

/// Memory of a GPU whose addresses are reserved once and mapped granule by granule, by the driver's
/// virtual memory management. `held()` is what the device holds, to the byte: each committed
/// granule is an allocation of its own, made by commit and given back by decommit.
///
/// The driver's functions are looked up at run time; nothing links `libcuda`. Addresses that are
/// reserved and not committed fault when a kernel touches them. Contents are undefined after a
/// commit. Unmapping does not wait: work on the device that uses a range has ended before it is
/// decommitted or released, and before the last handle goes.
///
/// Copies are handles of one state. A moved-from one may only be destroyed and assigned to.
class VmmMemory {
 public:
  /// Memory of one GPU.
  /// @param device ordinal of the GPU, from 0
  /// @param granularity of the plan: a multiple of the device's, of at most 1 TiB; without it the
  ///     device's
  /// @return `invalid_argument` for an ordinal out of range and for a granularity that the device
  ///     does not map (the message names both), `unsupported` when there is no GPU, no driver that
  ///     fits, or no virtual memory management
  static Result<VmmMemory> create(std::int32_t device,
                                  std::optional<Bytes> granularity = std::nullopt);

  /// See `PageMemory`.
  Result<Region> reserve(Bytes size);
  /// See `PageMemory`. Linear in granules.
  Result<void> commit(const Region& region, Bytes offset, Bytes size);
  /// See `PageMemory`. Linear in granules.
  Result<void> decommit(const Region& region, Bytes offset, Bytes size);
  /// See `PageMemory`.
  Result<void> release(const Region& region);
  /// See `PageMemory`.
  [[nodiscard]] Bytes granularity() const;
  /// See `PageMemory`.
  [[nodiscard]] Bytes held() const;

 private:
  struct State;
  explicit VmmMemory(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

static_assert(PageMemory<VmmMemory>);

}  // namespace kvpool
