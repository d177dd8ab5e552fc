// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/memory/page_memory.hpp>

#include <memory>

namespace kvpool {

/// Memory of this process, by `mmap`. Committed bytes are zero at first, readable and writable;
/// reserved ones are neither, nor is the OS page after a region: an overrun is a fault. Decommitted
/// memory goes back to the operating system at once. Committed bytes become resident when written.
/// At most a few ten thousand separately committed ranges: each is a mapping of the process.
class HostMemory {
 public:
  /// With granules of 2 MiB.
  HostMemory();
  /// With granules of another size. @return `invalid_argument` unless it is a positive multiple of
  ///     the size of an OS page, of at most 1 TiB.
  static Result<HostMemory> create(Bytes granularity);

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
  explicit HostMemory(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

static_assert(PageMemory<HostMemory>);

}  // namespace kvpool
