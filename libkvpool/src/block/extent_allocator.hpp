// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block/bit_tree.hpp"

#include <array>
#include <cstdint>

namespace kvpool::block {

/// Units [start, start + units).
struct Extent {
  std::uint32_t start = 0;
  std::uint32_t units = 0;
};

/// Contiguous ranges of units out of one array, as buddies: any part of a range may be given back,
/// and neighbours join again. Prefers low addresses, so that little memory is touched.
class ExtentAllocator {
 public:
  ExtentAllocator() noexcept = default;
  /// All `units` free. @pre units < 2^31
  explicit ExtentAllocator(std::uint32_t units) noexcept;

  /// False when the system did not give the address space.
  [[nodiscard]] bool ok() const noexcept;
  /// A range of `units`, or, where none is that long, of fewer; empty when nothing is free.
  /// @pre units > 0
  [[nodiscard]] Extent allocate(std::uint32_t units) noexcept;
  /// Gives a range back. @pre it is allocated
  void free(Extent extent) noexcept;
  /// Units that are free.
  [[nodiscard]] std::uint32_t free_units() const noexcept { return free_units_; }
  /// Units in all.
  [[nodiscard]] std::uint32_t units() const noexcept { return units_; }
  /// True when the unit is free. Walks the orders.
  [[nodiscard]] bool is_free(std::uint32_t unit) const noexcept;
  /// Bytes when all of it has been touched.
  [[nodiscard]] std::int64_t bytes() const noexcept;

 private:
  static constexpr std::uint32_t kOrders = 31;

  void free_block(std::uint32_t start, std::uint32_t order) noexcept;

  /// free_[k]: starts / 2^k of free blocks of 2^k units.
  std::array<BitTree, kOrders> free_;
  /// Bit k is set when `free_[k]` has a member.
  std::uint32_t orders_ = 0;
  std::uint32_t units_ = 0;
  std::uint32_t free_units_ = 0;
};

}  // namespace kvpool::block
