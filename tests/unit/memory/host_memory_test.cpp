// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/host_memory.hpp>

#include "support/catch.hpp"
#include "support/page_memory_suite.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvpool {
namespace {

using namespace kvpool::literals;

/// Bytes of a range that are in physical memory.
Bytes resident(const Region& region) {
  const auto os_page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto size = static_cast<std::size_t>(region.size.count());
  std::vector<unsigned char> pages((size + os_page - 1) / os_page);
  REQUIRE(::mincore(reinterpret_cast<void*>(region.address), size, pages.data()) == 0);
  const auto count = std::count_if(pages.begin(), pages.end(),
                                   [](unsigned char page) { return (page & 1U) != 0; });
  return Bytes{static_cast<std::int64_t>(count) * static_cast<std::int64_t>(os_page)};
}

/// A pipe, to ask the system whether an address can be read or written without a signal.
class AddressProbe {
 public:
  AddressProbe() { REQUIRE(::pipe(ends_.data()) == 0); }
  AddressProbe(const AddressProbe&) = delete;
  AddressProbe& operator=(const AddressProbe&) = delete;
  ~AddressProbe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }

  /// Whether the byte can be read.
  [[nodiscard]] bool readable(std::uintptr_t address) const {
    if (::write(ends_[1], reinterpret_cast<void*>(address), 1) != 1) {
      CHECK(errno == EFAULT);
      return false;
    }
    unsigned char byte = 0;
    REQUIRE(::read(ends_[0], &byte, 1) == 1);
    return true;
  }

  /// Whether the byte can be written, too; it becomes 0.
  [[nodiscard]] bool writable(std::uintptr_t address) const {
    const unsigned char byte = 0;
    REQUIRE(::write(ends_[1], &byte, 1) == 1);
    if (::read(ends_[0], reinterpret_cast<void*>(address), 1) == 1) {
      return true;
    }
    CHECK(errno == EFAULT);
    unsigned char discarded = 0;
    REQUIRE(::read(ends_[0], &discarded, 1) == 1);
    return false;
  }

 private:
  std::array<int, 2> ends_{};
};

std::uintptr_t address_in(const Region& region, Bytes offset) {
  return region.address + static_cast<std::uintptr_t>(offset.count());
}

TEST_CASE("host memory keeps the contract of page memory", "[memory][host]") {
  const auto granularity = GENERATE(4_KiB, 12_KiB, 64_KiB, 2_MiB);
  CAPTURE(granularity.count());
  test::page_memory_suite({.make =
                               [&] {
                                 const auto memory = HostMemory::create(granularity);
                                 REQUIRE(memory.has_value());
                                 return AnyPageMemory{*memory};
                               },
                           .writable = true});
}

TEST_CASE("host memory has granules of 2 MiB by default", "[memory][host]") {
  CHECK(HostMemory{}.granularity() == Bytes{2'097'152});
}

TEST_CASE("host memory refuses granules that are no OS pages", "[memory][host]") {
  for (const Bytes granularity : {0_B, Bytes{-4096}, 256_B, 4_KiB + 256_B, 2048_GiB}) {
    CAPTURE(granularity.count());
    CHECK(test::code_of(HostMemory::create(granularity)) == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("reserving host memory makes nothing resident", "[memory][host]") {
  HostMemory memory;
  const auto region = memory.reserve(64_GiB);
  REQUIRE(region.has_value());
  CHECK(resident({.address = region->address, .size = 1_GiB}) == 0_B);
}

TEST_CASE("decommitted host memory is back with the system, and zero when it returns",
          "[memory][host]") {
  HostMemory memory;
  const auto region = memory.reserve(8_MiB);
  REQUIRE(region.has_value());
  REQUIRE(memory.commit(*region, 0_B, 8_MiB).has_value());
  for (Bytes at = 0_B; at < 8_MiB; at += 4_KiB) {
    test::byte_at(*region, at) = 0xff;
  }
  test::byte_at(*region, 8_MiB - 1_B) = 0xff;
  CHECK(resident(*region) == 8_MiB);

  REQUIRE(memory.decommit(*region, 2_MiB, 4_MiB).has_value());
  CHECK(resident(*region) == 4_MiB);
  CHECK(resident({.address = address_in(*region, 2_MiB), .size = 4_MiB}) == 0_B);
  CHECK(test::byte_at(*region, 0_B) == 0xff);
  CHECK(test::byte_at(*region, 8_MiB - 1_B) == 0xff);

  REQUIRE(memory.commit(*region, 2_MiB, 4_MiB).has_value());
  CHECK(test::byte_at(*region, 2_MiB) == 0);
  CHECK(test::byte_at(*region, 6_MiB - 1_B) == 0);
}

TEST_CASE("only committed host memory is accessible", "[memory][host]") {
  const AddressProbe probe;
  HostMemory memory;
  const auto region = memory.reserve(6_MiB);
  REQUIRE(region.has_value());
  CHECK_FALSE(probe.readable(region->address));
  REQUIRE(memory.commit(*region, 2_MiB, 2_MiB).has_value());
  CHECK_FALSE(probe.readable(address_in(*region, 2_MiB - 1_B)));
  CHECK(probe.writable(address_in(*region, 2_MiB)));
  CHECK(probe.writable(address_in(*region, 4_MiB - 1_B)));
  CHECK_FALSE(probe.readable(address_in(*region, 4_MiB)));
  REQUIRE(memory.decommit(*region, 2_MiB, 2_MiB).has_value());
  CHECK_FALSE(probe.readable(address_in(*region, 2_MiB)));
}

/// Whether nothing of this process is mapped at the OS page.
bool is_free(std::uintptr_t address) {
  void* const page = reinterpret_cast<void*>(address);
  void* const mapping =
      ::mmap(page, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapping == MAP_FAILED) {
    CHECK(errno == EEXIST);
    return false;
  }
  CHECK(mapping == page);
  REQUIRE(::munmap(mapping, 4096) == 0);
  return true;
}

TEST_CASE("the OS page behind a host region is kept, and never accessible", "[memory][host]") {
  const AddressProbe probe;
  HostMemory memory;
  const Region region = memory.reserve(2_MiB).value();
  REQUIRE(memory.commit(region, 0_B, 2_MiB).has_value());
  CHECK(probe.writable(address_in(region, 2_MiB - 1_B)));
  CHECK_FALSE(probe.readable(address_in(region, 2_MiB)));
  CHECK_FALSE(probe.readable(address_in(region, 2_MiB + 4_KiB - 1_B)));
  CHECK_FALSE(is_free(address_in(region, 2_MiB)));
  CHECK(is_free(address_in(region, 2_MiB + 4_KiB)));
  REQUIRE(memory.release(region).has_value());
  CHECK(is_free(address_in(region, 2_MiB)));
  CHECK(is_free(region.address));
}

TEST_CASE("the last handle unmaps what is still reserved", "[memory][host]") {
  const AddressProbe probe;
  std::vector<HostMemory> handles(1);
  const auto region = handles.front().reserve(2_MiB);
  REQUIRE(region.has_value());
  REQUIRE(handles.front().commit(*region, 0_B, 2_MiB).has_value());
  handles.push_back(handles.front());
  handles.pop_back();
  CHECK(probe.writable(region->address));
  handles.pop_back();
  CHECK_FALSE(probe.readable(region->address));
}

}  // namespace
}  // namespace kvpool
