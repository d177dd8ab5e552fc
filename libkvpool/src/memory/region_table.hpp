// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/memory/page_memory.hpp>

#include <absl/container/btree_map.h>

#include <cstdint>
#include <optional>

namespace kvpool {

/// The largest granule a bundled memory takes; keeps sums of addresses within 64 bits.
inline constexpr Bytes kMaxGranularity{std::int64_t{1} << 40};

/// The books of a page memory: live regions, and which of their bytes are committed. It checks
/// calls against the contract of `PageMemory`; the memory itself is someone else's.
class RegionTable {
 public:
  /// @pre check_granularity(granularity)
  explicit RegionTable(Bytes granularity) : granularity_{granularity} {}

  /// `invalid_argument` unless a granule can have this size.
  static Result<void> check_granularity(Bytes granularity);

  /// Bytes in a granule.
  [[nodiscard]] Bytes granularity() const { return granularity_; }
  /// What the address of a region is a multiple of.
  [[nodiscard]] std::uint64_t alignment() const;
  /// Bytes committed in all regions.
  [[nodiscard]] Bytes held() const { return held_; }
  /// Live regions by address, with their sizes.
  [[nodiscard]] const auto& regions() const { return regions_; }

  /// `invalid_argument` unless a region can have this size.
  [[nodiscard]] Result<void> check_reserve(Bytes size) const;
  /// Enters a region. @pre check_reserve(region.size), and no live region overlaps it
  void add(const Region& region);

  /// `invalid_argument` unless the range can be committed now.
  [[nodiscard]] Result<void> check_commit(const Region& region, Bytes offset, Bytes size) const;
  /// Enters a commit. @pre check_commit(region, offset, size)
  void commit(const Region& region, Bytes offset, Bytes size);

  /// `invalid_argument` unless the range can be decommitted now.
  [[nodiscard]] Result<void> check_decommit(const Region& region, Bytes offset, Bytes size) const;
  /// Enters a decommit. @pre check_decommit(region, offset, size)
  void decommit(const Region& region, Bytes offset, Bytes size);

  /// `invalid_argument` unless the region is live.
  [[nodiscard]] Result<void> check_region(const Region& region) const;
  /// Forgets a region. @pre check_region(region)
  void remove(const Region& region);

 private:
  /// Disjoint ranges that do not touch: offset of the first byte to offset behind the last.
  using Ranges = absl::btree_map<std::int64_t, std::int64_t>;

  struct Entry {
    Bytes size;
    Ranges committed;
  };

  [[nodiscard]] Result<void> check_range(const Region& region, Bytes offset, Bytes size) const;

  Bytes granularity_;
  Bytes held_;
  absl::btree_map<std::uintptr_t, Entry> regions_;
};

}  // namespace kvpool
