// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/memory/page_memory.hpp>

#include <cstdint>
#include <memory>

namespace kvpool {

/// Page-locked memory of the host, by `cudaHostAlloc`: one call per region. Every GPU of the
/// process can copy from and to it without staging, and so asynchronously.
///
/// As with `DeviceMemory`, a region is held whole from `reserve` to `release`, and commit and
/// decommit only keep the books. Locked memory is taken from the whole machine: keep it small.
///
/// Copies are handles of one state. A moved-from one may only be destroyed and assigned to.
class PinnedMemory {
 public:
  /// Granule when none is given: an OS page.
  static constexpr Bytes kDefaultGranularity{4096};

  /// Memory for copies from and to GPUs.
  /// @param device ordinal of a GPU whose context makes the allocations, from 0
  /// @param granularity 256 B to 1 TiB
  /// @return `invalid_argument` for an ordinal or a granularity out of range, `unsupported` when
  ///     there is no GPU or no driver that fits
  static Result<PinnedMemory> create(std::int32_t device, Bytes granularity = kDefaultGranularity);

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
  explicit PinnedMemory(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

static_assert(PageMemory<PinnedMemory>);

}  // namespace kvpool
