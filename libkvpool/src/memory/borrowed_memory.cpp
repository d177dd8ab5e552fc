// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/borrowed_memory.hpp>

#include "core/format.hpp"
#include "memory/region_table.hpp"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <utility>

namespace kvpool {

struct BorrowedMemory::State {
  State(std::uint64_t first, std::uint64_t last, Bytes granularity)
      : begin{first}, end{last}, table{granularity} {}

  /// The lowest aligned address with `size` free bytes behind it.
  [[nodiscard]] std::optional<std::uint64_t> find_place(std::uint64_t size) const {
    const std::uint64_t alignment = table.alignment();
    const auto align = [alignment](std::uint64_t address) -> std::optional<std::uint64_t> {
      const std::uint64_t beyond = address % alignment;
      if (beyond == 0) {
        return address;
      }
      if (address > std::numeric_limits<std::uint64_t>::max() - (alignment - beyond)) {
        return std::nullopt;
      }
      return address + (alignment - beyond);
    };
    std::optional<std::uint64_t> place = align(begin);
    for (const auto& [address, entry] : table.regions()) {
      if (!place.has_value() || (address >= *place && address - *place >= size)) {
        break;
      }
      place = align(address + static_cast<std::uint64_t>(entry.size.count()));
    }
    const bool fits = place.has_value() && *place <= end && end - *place >= size;
    return fits ? place : std::nullopt;
  }

  std::uint64_t begin;
  std::uint64_t end;
  RegionTable table;
};

BorrowedMemory::BorrowedMemory(std::shared_ptr<State> state) : state_{std::move(state)} {}

Result<BorrowedMemory> BorrowedMemory::create(std::uintptr_t address, Bytes size,
                                              Bytes granularity) {
  if (auto valid = RegionTable::check_granularity(granularity); !valid) {
    return std::move(valid).error();
  }
  if (address == 0 || size.count() <= 0 ||
      static_cast<std::uint64_t>(size.count()) >
          std::numeric_limits<std::uint64_t>::max() - address) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("cannot borrow {} at {}: pass the address and the size of "
                                        "memory that exists",
                                        format_bytes(size), format_address(address))};
  }
  return BorrowedMemory{std::make_shared<State>(
      address, address + static_cast<std::uint64_t>(size.count()), granularity)};
}

Result<Region> BorrowedMemory::reserve(Bytes size) {
  if (auto valid = state_->table.check_reserve(size); !valid) {
    return std::move(valid).error();
  }
  const auto place = state_->find_place(static_cast<std::uint64_t>(size.count()));
  if (!place.has_value()) {
    const auto borrowed = Bytes{static_cast<std::int64_t>(state_->end - state_->begin)};
    return Error{.code = ErrorCode::kExhausted,
                 .message = fmt::format("no free range of {}, aligned to {} B, is left in the {} "
                                        "borrowed at {}",
                                        format_bytes(size), state_->table.alignment(),
                                        format_bytes(borrowed), format_address(state_->begin))};
  }
  const Region region{.address = *place, .size = size};
  state_->table.add(region);
  return region;
}

Result<void> BorrowedMemory::commit(const Region& region, Bytes offset, Bytes size) {
  if (auto valid = state_->table.check_commit(region, offset, size); !valid) {
    return valid;
  }
  state_->table.commit(region, offset, size);
  return {};
}

Result<void> BorrowedMemory::decommit(const Region& region, Bytes offset, Bytes size) {
  if (auto valid = state_->table.check_decommit(region, offset, size); !valid) {
    return valid;
  }
  state_->table.decommit(region, offset, size);
  return {};
}

Result<void> BorrowedMemory::release(const Region& region) {
  if (auto valid = state_->table.check_region(region); !valid) {
    return valid;
  }
  state_->table.remove(region);
  return {};
}

Bytes BorrowedMemory::granularity() const { return state_->table.granularity(); }

Bytes BorrowedMemory::held() const { return state_->table.held(); }

}  // namespace kvpool
