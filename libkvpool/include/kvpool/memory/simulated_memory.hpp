// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/memory/page_memory.hpp>

#include <memory>
#include <optional>

namespace kvpool {

/// How a `SimulatedMemory` behaves.
struct SimulatedMemoryOptions {
  /// Bytes in a granule, 1 B to 1 TiB. The default is that of NVIDIA devices.
  Bytes granularity = Bytes{2 << 20};
  /// Most bytes committed at a time; nothing for no limit. Reserving addresses is free.
  std::optional<Bytes> capacity = std::nullopt;

  /// Field by field.
  friend bool operator==(const SimulatedMemoryOptions&, const SimulatedMemoryOptions&) = default;
};

/// Memory that is addresses only: plans 80 GB pools on a laptop. The addresses must not be read or
/// written. They are the same in each run, never reused, and regions do not touch, so that an
/// address tells which region it was meant for.
class SimulatedMemory {
 public:
  /// Unlimited, with granules of 2 MiB.
  SimulatedMemory();
  /// With other options. @return `invalid_argument` for a granularity or capacity out of range.
  static Result<SimulatedMemory> create(const SimulatedMemoryOptions& options);

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
  explicit SimulatedMemory(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

static_assert(PageMemory<SimulatedMemory>);

}  // namespace kvpool
