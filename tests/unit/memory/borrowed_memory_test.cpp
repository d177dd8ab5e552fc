// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/borrowed_memory.hpp>

#include "support/catch.hpp"
#include "support/page_memory_suite.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

namespace kvpool {
namespace {

using namespace kvpool::literals;

BorrowedMemory borrow(std::uintptr_t address, Bytes size, Bytes granularity) {
  const auto memory = BorrowedMemory::create(address, size, granularity);
  REQUIRE(memory.has_value());
  return *memory;
}

TEST_CASE("borrowed memory keeps the contract of page memory", "[memory][borrowed]") {
  const auto granularity = GENERATE(16_B, 256_B, 4_KiB);
  const Bytes size = granularity * 64 + 4_KiB;
  const auto storage = std::make_unique<std::byte[]>(static_cast<std::size_t>(size.count()));
  CAPTURE(granularity.count());
  test::page_memory_suite(
      {.make =
           [&] {
             return AnyPageMemory{
                 borrow(reinterpret_cast<std::uintptr_t>(storage.get()), size, granularity)};
           },
       .writable = true});
}

TEST_CASE("borrowed memory is handed out in order from the first aligned address",
          "[memory][borrowed]") {
  BorrowedMemory memory = borrow(0x10010, 1280_B, 256_B);
  CHECK(memory.reserve(512_B).value().address == 0x10100);
  CHECK(memory.reserve(256_B).value().address == 0x10300);
  // 0x10400 to 0x10510 are left: 272 B.
  CHECK(test::code_of(memory.reserve(512_B)) == ErrorCode::kExhausted);
  CHECK(memory.reserve(256_B).value().address == 0x10400);
  CHECK(test::code_of(memory.reserve(256_B)) == ErrorCode::kExhausted);
}

TEST_CASE("a released place of borrowed memory is handed out again", "[memory][borrowed]") {
  BorrowedMemory memory = borrow(0x20000, 1_KiB, 256_B);
  const Region a = memory.reserve(256_B).value();
  const Region b = memory.reserve(512_B).value();
  REQUIRE(memory.reserve(256_B).has_value());
  REQUIRE(memory.release(a).has_value());
  CHECK(test::code_of(memory.reserve(512_B)) == ErrorCode::kExhausted);
  CHECK(memory.reserve(256_B).value().address == 0x20000);
  REQUIRE(memory.release(b).has_value());
  CHECK(memory.reserve(256_B).value().address == 0x20100);
  CHECK(memory.reserve(256_B).value().address == 0x20200);
}

TEST_CASE("small granules still start regions at multiples of 256 B", "[memory][borrowed]") {
  BorrowedMemory memory = borrow(0x30000, 1_KiB, 16_B);
  CHECK(memory.reserve(16_B).value().address == 0x30000);
  CHECK(memory.reserve(272_B).value().address == 0x30100);
  CHECK(memory.reserve(16_B).value().address == 0x30300);
}

TEST_CASE("borrowing nothing, or past the end of the address space, is refused",
          "[memory][borrowed]") {
  constexpr auto kLast = std::numeric_limits<std::uintptr_t>::max();
  CHECK(test::code_of(BorrowedMemory::create(0, 1_KiB)) == ErrorCode::kInvalidArgument);
  CHECK(test::code_of(BorrowedMemory::create(0x1000, 0_B)) == ErrorCode::kInvalidArgument);
  CHECK(test::code_of(BorrowedMemory::create(0x1000, Bytes{-1})) == ErrorCode::kInvalidArgument);
  CHECK(test::code_of(BorrowedMemory::create(kLast, 1_KiB)) == ErrorCode::kInvalidArgument);
  CHECK(test::code_of(BorrowedMemory::create(0x1000, 1_KiB, 0_B)) == ErrorCode::kInvalidArgument);
}

TEST_CASE("memory at the end of the address space is used without overflow", "[memory][borrowed]") {
  constexpr auto kLast = std::numeric_limits<std::uintptr_t>::max();
  BorrowedMemory memory = borrow(kLast - 1023, 1023_B, 256_B);
  CHECK(memory.reserve(512_B).value().address == kLast - 1023);
  CHECK(memory.reserve(256_B).value().address == kLast - 511);
  CHECK(test::code_of(memory.reserve(256_B)) == ErrorCode::kExhausted);
  BorrowedMemory unaligned = borrow(kLast - 100, 100_B, 1_B);
  CHECK(test::code_of(unaligned.reserve(1_B)) == ErrorCode::kExhausted);
}

}  // namespace
}  // namespace kvpool
