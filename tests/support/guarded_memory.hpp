// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Host memory for tests: behind every region lie bytes of a known pattern, and behind those an OS
// page that faults.
#pragma once

#include <kvpool/memory/page_memory.hpp>

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace kvpool::test {

class GuardedMemory {
 public:
  static constexpr std::size_t kGuard = 16384;
  static constexpr std::uint8_t kPattern = 0x5A;

  explicit GuardedMemory(Bytes granularity) : state_{std::make_shared<State>()} {
    state_->granularity = granularity;
  }

  Result<Region> reserve(Bytes size) {
    const auto bytes = static_cast<std::size_t>(size.count());
    // Behind the guard, one page more that nobody may touch.
    void* base = mmap(nullptr, bytes + 2 * kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {  // NOLINT: the macro's cast
      return Error{.code = ErrorCode::kExhausted, .message = "no addresses"};
    }
    if (mprotect(base, bytes + kGuard, PROT_READ | PROT_WRITE) != 0) {
      return Error{.code = ErrorCode::kExhausted, .message = "no memory"};
    }
    // A test touches a few bytes of each pool: no need for large pages to be cleared.
    static_cast<void>(madvise(base, bytes, MADV_NOHUGEPAGE));
    auto* guard = static_cast<std::uint8_t*>(base) + bytes;
    for (std::size_t i = 0; i < kGuard; ++i) {
      guard[i] = kPattern;
    }
    const Region region{.address = reinterpret_cast<std::uintptr_t>(base), .size = size};
    state_->committed[region.address] = Bytes{0};
    return region;
  }
  Result<void> commit(const Region& region, Bytes /*offset*/, Bytes size) {
    state_->committed[region.address] += size;
    return {};
  }
  Result<void> decommit(const Region& region, Bytes /*offset*/, Bytes size) {
    state_->committed[region.address] -= size;
    return {};
  }
  Result<void> release(const Region& region) {
    state_->broken_guards += intact(region) ? 0 : 1;
    state_->committed.erase(region.address);
    munmap(reinterpret_cast<void*>(region.address),  // NOLINT: an address is what a region has
           static_cast<std::size_t>(region.size.count()) + 2 * kGuard);
    return {};
  }
  [[nodiscard]] Bytes granularity() const { return state_->granularity; }
  [[nodiscard]] Bytes held() const {
    Bytes sum;
    for (const auto& [address, bytes] : state_->committed) {
      sum += bytes;
    }
    return sum;
  }
  /// Guards that were found changed when their region was released.
  [[nodiscard]] int broken_guards() const { return state_->broken_guards; }

  /// True while nothing was written behind the region.
  [[nodiscard]] static bool intact(const Region& region) {
    const auto* guard = reinterpret_cast<const std::uint8_t*>(  // NOLINT: as above
        region.address + static_cast<std::uintptr_t>(region.size.count()));
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (guard[i] != kPattern) {
        return false;
      }
    }
    return true;
  }

 private:
  struct State {
    Bytes granularity{};
    std::map<std::uintptr_t, Bytes> committed;
    int broken_guards = 0;
  };
  std::shared_ptr<State> state_;
};

static_assert(PageMemory<GuardedMemory>);

}  // namespace kvpool::test
