// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/host_memory.hpp>

#include <kvpool/core/checked.hpp>

#include "core/format.hpp"
#include "memory/region_table.hpp"

#include <fmt/format.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

namespace kvpool {
namespace {

constexpr Bytes kDefaultGranularity{2 << 20};

std::uint64_t os_page_bytes() { return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)); }

void* pointer_to(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT: addresses are this file's business
}

std::size_t length(Bytes size) { return static_cast<std::size_t>(size.count()); }

Error os_error(std::string_view call, Bytes size, int error) {
  return {.code = ErrorCode::kExhausted,
          .message = fmt::format("{} of {} failed: {}", call, format_bytes(size),
                                 std::generic_category().message(error))};
}

/// Addresses without memory, not accessible; at `fixed`, in place of what is there, unless 0.
void* map_addresses(std::uintptr_t fixed, std::size_t size) {
  const int placement = fixed == 0 ? 0 : MAP_FIXED;
  return ::mmap(pointer_to(fixed), size, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | placement, -1, 0);
}

}  // namespace

struct HostMemory::State {
  explicit State(Bytes granularity) : table{granularity} {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() {
    for (const auto& [address, entry] : table.regions()) {
      unmap({.address = address, .size = entry.size});
    }
  }

  /// Unmaps a region and the OS page behind it. @return 0, or the error
  static int unmap(const Region& region) {
    return ::munmap(pointer_to(region.address), length(region.size) + os_page_bytes()) == 0 ? 0
                                                                                            : errno;
  }

  RegionTable table;
};

HostMemory::HostMemory() : HostMemory{std::make_shared<State>(kDefaultGranularity)} {}

HostMemory::HostMemory(std::shared_ptr<State> state) : state_{std::move(state)} {}

Result<HostMemory> HostMemory::create(Bytes granularity) {
  if (auto valid = RegionTable::check_granularity(granularity); !valid) {
    return std::move(valid).error();
  }
  const Bytes os_page{static_cast<std::int64_t>(os_page_bytes())};
  if (granularity % os_page != Bytes{0}) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("a granule of {} is not a multiple of an OS page, {}",
                                        format_bytes(granularity), format_bytes(os_page))};
  }
  return HostMemory{std::make_shared<State>(granularity)};
}

Result<Region> HostMemory::reserve(Bytes size) {
  if (auto valid = state_->table.check_reserve(size); !valid) {
    return std::move(valid).error();
  }
  // Room to move the start up to a granule, the region, and an OS page that stays inaccessible.
  const std::uint64_t alignment = state_->table.alignment();
  const std::uint64_t guard = os_page_bytes();
  const auto total =
      (CheckedInt{size.count()} + static_cast<std::int64_t>(alignment + guard)).to_int64();
  if (!total.has_value()) {
    return os_error("mmap", size, ENOMEM);
  }
  void* const mapping = map_addresses(0, static_cast<std::size_t>(*total));
  if (mapping == MAP_FAILED) {
    return os_error("mmap", size, errno);
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(mapping);  // NOLINT: as above
  const std::uintptr_t end = begin + static_cast<std::uint64_t>(*total);
  const std::uintptr_t address = (begin + alignment - 1) / alignment * alignment;
  const std::uintptr_t guard_end = address + length(size) + guard;
  // Giving back the slack cannot fail in a way that matters: it would only stay reserved.
  if (address > begin) {
    ::munmap(mapping, address - begin);
  }
  if (end > guard_end) {
    ::munmap(pointer_to(guard_end), end - guard_end);
  }
  const Region region{.address = address, .size = size};
  state_->table.add(region);
  return region;
}

Result<void> HostMemory::commit(const Region& region, Bytes offset, Bytes size) {
  if (auto valid = state_->table.check_commit(region, offset, size); !valid) {
    return valid;
  }
  if (::mprotect(pointer_to(region.address + length(offset)), length(size),
                 PROT_READ | PROT_WRITE) != 0) {
    return os_error("mprotect", size, errno);
  }
  state_->table.commit(region, offset, size);
  return {};
}

Result<void> HostMemory::decommit(const Region& region, Bytes offset, Bytes size) {
  if (auto valid = state_->table.check_decommit(region, offset, size); !valid) {
    return valid;
  }
  // A fresh mapping in place of the old one drops the memory and the access to it in one step.
  if (map_addresses(region.address + length(offset), length(size)) == MAP_FAILED) {
    return os_error("mmap", size, errno);
  }
  state_->table.decommit(region, offset, size);
  return {};
}

Result<void> HostMemory::release(const Region& region) {
  if (auto valid = state_->table.check_region(region); !valid) {
    return valid;
  }
  if (const int error = State::unmap(region); error != 0) {
    return os_error("munmap", region.size, error);
  }
  state_->table.remove(region);
  return {};
}

Bytes HostMemory::granularity() const { return state_->table.granularity(); }

Bytes HostMemory::held() const { return state_->table.held(); }

}  // namespace kvpool
