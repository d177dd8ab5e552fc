// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/memory/page_memory.hpp>

#include <memory>

namespace kvpool {

/// Memory that belongs to someone else, such as an engine's own allocation, on the host or on a
/// device. Regions are handed out from it in order of address, each at the lowest free place.
/// Commit and decommit only keep the books: the memory is there, is never touched, and has to
/// outlive its use.
class BorrowedMemory {
 public:
  /// Borrows `[address, address + size)`. If it does not start at a multiple of the alignment of
  /// regions, the bytes up to the next one stay unused.
  /// @param granularity bytes in a granule, 1 B to 1 TiB
  /// @return `invalid_argument` when the address is 0, the size is not positive, the range does not
  ///     fit into the address space or the granularity is out of range.
  static Result<BorrowedMemory> create(std::uintptr_t address, Bytes size,
                                       Bytes granularity = kRegionAlignment);

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
  explicit BorrowedMemory(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

static_assert(PageMemory<BorrowedMemory>);

}  // namespace kvpool
