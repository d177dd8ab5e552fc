// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/region_table.hpp"

#include "core/format.hpp"

#include <fmt/format.h>

#include <iterator>
#include <numeric>
#include <string>
#include <utility>

namespace kvpool {
namespace {

Error invalid(std::string message) {
  return {.code = ErrorCode::kInvalidArgument, .message = std::move(message)};
}

std::string range_text(const Region& region, Bytes offset, Bytes size) {
  return fmt::format("{} at offset {} of the region at {}", format_bytes(size),
                     format_bytes(offset), format_address(region.address));
}

}  // namespace

Result<void> RegionTable::check_granularity(Bytes granularity) {
  if (granularity.count() < 1 || granularity > kMaxGranularity) {
    return invalid(fmt::format("a granule of {} is not possible: choose 1 B to {}",
                               format_bytes(granularity), format_bytes(kMaxGranularity)));
  }
  return {};
}

std::uint64_t RegionTable::alignment() const {
  return static_cast<std::uint64_t>(std::lcm(granularity_.count(), kRegionAlignment.count()));
}

Result<void> RegionTable::check_reserve(Bytes size) const {
  if (size.count() <= 0 || size % granularity_ != Bytes{0}) {
    return invalid(
        fmt::format("cannot reserve {}: the size has to be a positive multiple of the "
                    "granularity, {}",
                    format_bytes(size), format_bytes(granularity_)));
  }
  return {};
}

void RegionTable::add(const Region& region) {
  regions_.insert_or_assign(region.address, Entry{.size = region.size, .committed = {}});
}

Result<void> RegionTable::check_region(const Region& region) const {
  const auto entry = regions_.find(region.address);
  if (entry == regions_.end()) {
    return invalid(
        fmt::format("no region at {} is reserved: it was released, or belongs to "
                    "another memory",
                    format_address(region.address)));
  }
  if (entry->second.size != region.size) {
    return invalid(
        fmt::format("the region at {} has {}, not {}: pass the region as it was reserved",
                    format_address(region.address), format_bytes(entry->second.size),
                    format_bytes(region.size)));
  }
  return {};
}

Result<void> RegionTable::check_range(const Region& region, Bytes offset, Bytes size) const {
  if (auto known = check_region(region); !known) {
    return known;
  }
  if (offset.count() < 0 || size.count() <= 0 || offset % granularity_ != Bytes{0} ||
      size % granularity_ != Bytes{0}) {
    return invalid(fmt::format("{} is not a range of whole granules of {}",
                               range_text(region, offset, size), format_bytes(granularity_)));
  }
  if (offset > region.size || size > region.size - offset) {
    return invalid(fmt::format("{} ends behind the region, which has {}",
                               range_text(region, offset, size), format_bytes(region.size)));
  }
  return {};
}

Result<void> RegionTable::check_commit(const Region& region, Bytes offset, Bytes size) const {
  if (auto range = check_range(region, offset, size); !range) {
    return range;
  }
  const Ranges& committed = regions_.find(region.address)->second.committed;
  const auto behind = committed.lower_bound((offset + size).count());
  if (behind != committed.begin() && std::prev(behind)->second > offset.count()) {
    return invalid(
        fmt::format("{} is committed already, at least in part", range_text(region, offset, size)));
  }
  return {};
}

void RegionTable::commit(const Region& region, Bytes offset, Bytes size) {
  Ranges& committed = regions_.find(region.address)->second.committed;
  std::int64_t first = offset.count();
  std::int64_t last = (offset + size).count();
  const auto behind = committed.lower_bound(first);
  const bool joins_behind = behind != committed.end() && behind->first == last;
  const bool joins_before = behind != committed.begin() && std::prev(behind)->second == first;
  if (joins_behind) {
    last = behind->second;
  }
  if (joins_before) {
    first = std::prev(behind)->first;
  }
  if (joins_behind) {
    committed.erase(offset.count() + size.count());
  }
  committed.insert_or_assign(first, last);
  held_ += size;
}

Result<void> RegionTable::check_decommit(const Region& region, Bytes offset, Bytes size) const {
  if (auto range = check_range(region, offset, size); !range) {
    return range;
  }
  const Ranges& committed = regions_.find(region.address)->second.committed;
  const auto above = committed.upper_bound(offset.count());
  if (above == committed.begin() || std::prev(above)->second < (offset + size).count()) {
    return invalid(
        fmt::format("{} is not committed, at least in part", range_text(region, offset, size)));
  }
  return {};
}

void RegionTable::decommit(const Region& region, Bytes offset, Bytes size) {
  Ranges& committed = regions_.find(region.address)->second.committed;
  const auto around = std::prev(committed.upper_bound(offset.count()));
  const auto [first, last] = *around;
  const std::int64_t end = (offset + size).count();
  committed.erase(first);
  if (first < offset.count()) {
    committed.insert_or_assign(first, offset.count());
  }
  if (end < last) {
    committed.insert_or_assign(end, last);
  }
  held_ -= size;
}

void RegionTable::remove(const Region& region) {
  const auto entry = regions_.find(region.address);
  for (const auto& [first, last] : entry->second.committed) {
    held_ -= Bytes{last - first};
  }
  regions_.erase(entry);
}

}  // namespace kvpool
