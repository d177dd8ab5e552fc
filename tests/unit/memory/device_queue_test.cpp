// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/device_queue.hpp>

#include <kvpool/memory/delayed_queue.hpp>
#include <kvpool/memory/host_queue.hpp>

#include "support/catch.hpp"
#include "support/page_memory_suite.hpp"

#include <array>
#include <cstdint>
#include <numeric>
#include <optional>

namespace kvpool {
namespace {

using namespace kvpool::literals;
using Buffer = std::array<std::int32_t, 4>;

Result<void> copy(AnyDeviceQueue queue, Buffer& destination, const Buffer& source) {
  return queue.copy_async(address_of(destination.data()), address_of(source.data()), 16_B);
}

/// What every queue has to do.
void device_queue_suite(AnyDeviceQueue queue) {
  SECTION("a copy has happened when its ticket is complete") {
    const Buffer source = {1, 2, 3, 4};
    Buffer destination = {};
    REQUIRE(copy(queue, destination, source).has_value());
    const auto ticket = queue.record();
    REQUIRE(ticket.has_value());
    REQUIRE(queue.wait(*ticket).has_value());
    CHECK(queue.query(*ticket).value());
    CHECK(destination == source);
  }
  SECTION("copies run in order") {
    const Buffer first = {1, 1, 1, 1};
    const Buffer second = {2, 2, 2, 2};
    Buffer middle = {};
    Buffer last = {};
    REQUIRE(copy(queue, middle, first).has_value());
    REQUIRE(copy(queue, last, middle).has_value());
    REQUIRE(copy(queue, middle, second).has_value());
    REQUIRE(queue.wait(queue.record().value()).has_value());
    CHECK(last == first);
    CHECK(middle == second);
  }
  SECTION("tickets grow, and a later one completes the earlier ones") {
    const Buffer source = {};
    Buffer destination = {};
    const Ticket before = queue.record().value();
    CHECK(queue.query(before).value());
    REQUIRE(copy(queue, destination, source).has_value());
    const Ticket early = queue.record().value();
    REQUIRE(copy(queue, destination, source).has_value());
    const Ticket late = queue.record().value();
    CHECK(before < early);
    CHECK(early < late);
    REQUIRE(queue.wait(late).has_value());
    CHECK(queue.query(early).value());
    CHECK(queue.wait(early).has_value());
  }
  SECTION("a ticket that was not recorded is refused") {
    CHECK(test::code_of(queue.query(Ticket{0})) == ErrorCode::kInvalidArgument);
    CHECK(test::code_of(queue.wait(Ticket{0})) == ErrorCode::kInvalidArgument);
    const Ticket ticket = queue.record().value();
    CHECK(test::code_of(queue.query(Ticket{ticket.value() + 1})) == ErrorCode::kInvalidArgument);
    CHECK(test::code_of(queue.wait(Ticket{ticket.value() + 1})) == ErrorCode::kInvalidArgument);
  }
  SECTION("a copy of nothing is fine, one of less or at address 0 is refused") {
    Buffer buffer = {};
    const std::uintptr_t address = address_of(buffer.data());
    CHECK(queue.copy_async(address, address, 0_B).has_value());
    CHECK(queue.query(queue.record().value()).value());
    CHECK(test::code_of(queue.copy_async(address, address, Bytes{-1})) ==
          ErrorCode::kInvalidArgument);
    CHECK(test::code_of(queue.copy_async(0, address, 4_B)) == ErrorCode::kInvalidArgument);
    CHECK(test::code_of(queue.copy_async(address, 0, 4_B)) == ErrorCode::kInvalidArgument);
  }
  SECTION("copies of a handle share the queue") {
    AnyDeviceQueue other = queue;
    CHECK(other == queue);
    CHECK_FALSE(other == AnyDeviceQueue{HostQueue{}});
    const Ticket ticket = other.record().value();
    CHECK(queue.query(ticket).has_value());
  }
}

TEST_CASE("the host queue keeps the contract of device queues", "[memory][queue]") {
  device_queue_suite(HostQueue{});
}

TEST_CASE("the delayed queue keeps the contract of device queues", "[memory][queue]") {
  device_queue_suite(DelayedQueue{});
}

TEST_CASE("the host queue copies at once", "[memory][queue]") {
  const Buffer source = {1, 2, 3, 4};
  Buffer destination = {};
  REQUIRE(copy(HostQueue{}, destination, source).has_value());
  CHECK(destination == source);
}

TEST_CASE("the delayed queue copies only when it is advanced", "[memory][queue]") {
  DelayedQueue queue;
  const Buffer source = {1, 2, 3, 4};
  Buffer first = {};
  Buffer second = {};
  REQUIRE(copy(queue, first, source).has_value());
  const Ticket ticket = queue.record().value();
  REQUIRE(copy(queue, second, source).has_value());
  CHECK(queue.pending() == 2);
  CHECK_FALSE(queue.query(ticket).value());
  CHECK(first == Buffer{});

  queue.advance(0);
  CHECK(queue.pending() == 2);
  queue.advance();
  CHECK(queue.query(ticket).value());
  CHECK(first == source);
  CHECK(second == Buffer{});

  queue.advance_all();
  CHECK(second == source);
  CHECK(queue.pending() == 0);
  queue.advance(3);
  CHECK(queue.pending() == 0);
}

TEST_CASE("waiting runs the work before the ticket and no more", "[memory][queue]") {
  DelayedQueue queue;
  const Buffer source = {5, 6, 7, 8};
  Buffer first = {};
  Buffer second = {};
  REQUIRE(copy(queue, first, source).has_value());
  const Ticket ticket = queue.record().value();
  REQUIRE(copy(queue, second, source).has_value());
  REQUIRE(queue.wait(ticket).has_value());
  CHECK(first == source);
  CHECK(second == Buffer{});
  CHECK(queue.pending() == 1);
}

TEST_CASE("a staging buffer written again too early shows in the delayed queue",
          "[memory][queue]") {
  DelayedQueue queue;
  Buffer staging = {1, 1, 1, 1};
  Buffer table = {};
  REQUIRE(copy(queue, table, staging).has_value());
  staging = {2, 2, 2, 2};
  queue.advance_all();
  CHECK(table == Buffer{2, 2, 2, 2});
}

}  // namespace
}  // namespace kvpool
