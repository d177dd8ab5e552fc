// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/simulated_memory.hpp>

#include "core/format.hpp"
#include "memory/region_table.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace kvpool {
namespace {

/// Far from null and from what a process maps at its start.
constexpr std::uint64_t kFirstAddress = std::uint64_t{1} << 44;

}  // namespace

struct SimulatedMemory::State {
  explicit State(const SimulatedMemoryOptions& chosen)
      : options{chosen}, table{chosen.granularity} {}

  SimulatedMemoryOptions options;
  RegionTable table;
  std::uint64_t next_address = kFirstAddress;
};

SimulatedMemory::SimulatedMemory()
    : SimulatedMemory{std::make_shared<State>(SimulatedMemoryOptions{})} {}

SimulatedMemory::SimulatedMemory(std::shared_ptr<State> state) : state_{std::move(state)} {}

Result<SimulatedMemory> SimulatedMemory::create(const SimulatedMemoryOptions& options) {
  if (auto valid = RegionTable::check_granularity(options.granularity); !valid) {
    return std::move(valid).error();
  }
  if (options.capacity.has_value() && options.capacity->count() < 0) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("a capacity of {} is negative: choose 0 B or more",
                                        format_bytes(*options.capacity))};
  }
  return SimulatedMemory{std::make_shared<State>(options)};
}

Result<Region> SimulatedMemory::reserve(Bytes size) {
  RegionTable& table = state_->table;
  if (auto valid = table.check_reserve(size); !valid) {
    return std::move(valid).error();
  }
  // The alignment is at most 2^48, so these sums stay below 2^64; an address is below 2^63.
  constexpr std::uint64_t kEnd = std::numeric_limits<std::int64_t>::max();
  const std::uint64_t alignment = table.alignment();
  const std::uint64_t address = (state_->next_address + alignment - 1) / alignment * alignment;
  if (address > kEnd || static_cast<std::uint64_t>(size.count()) > kEnd - address) {
    return Error{.code = ErrorCode::kExhausted,
                 .message = fmt::format("no simulated addresses are left for {}: 2^63 B end at {}",
                                        format_bytes(size), format_address(kEnd))};
  }
  state_->next_address = address + static_cast<std::uint64_t>(size.count()) + 1;
  const Region region{.address = address, .size = size};
  table.add(region);
  return region;
}

Result<void> SimulatedMemory::commit(const Region& region, Bytes offset, Bytes size) {
  RegionTable& table = state_->table;
  if (auto valid = table.check_commit(region, offset, size); !valid) {
    return valid;
  }
  const auto& capacity = state_->options.capacity;
  if (capacity.has_value() && size > *capacity - table.held()) {
    const Bytes missing = size - (*capacity - table.held());
    return Error{.code = ErrorCode::kExhausted,
                 .message = fmt::format("committing {} on top of {} exceeds the simulated capacity "
                                        "of {}: {} are missing",
                                        format_bytes(size), format_bytes(table.held()),
                                        format_bytes(*capacity), format_bytes(missing))};
  }
  table.commit(region, offset, size);
  return {};
}

Result<void> SimulatedMemory::decommit(const Region& region, Bytes offset, Bytes size) {
  if (auto valid = state_->table.check_decommit(region, offset, size); !valid) {
    return valid;
  }
  state_->table.decommit(region, offset, size);
  return {};
}

Result<void> SimulatedMemory::release(const Region& region) {
  if (auto valid = state_->table.check_region(region); !valid) {
    return valid;
  }
  state_->table.remove(region);
  return {};
}

Bytes SimulatedMemory::granularity() const { return state_->table.granularity(); }

Bytes SimulatedMemory::held() const { return state_->table.held(); }

}  // namespace kvpool
