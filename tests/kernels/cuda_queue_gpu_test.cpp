// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/cuda_queue.hpp>
#include <kvpool/cuda/device_memory.hpp>
#include <kvpool/cuda/pinned_memory.hpp>

#include "gpu_support.hpp"
#include "support/page_memory_suite.hpp"

#include <algorithm>
#include <vector>

namespace kvpool {
namespace {

using test::must;

constexpr Bytes kRegion{64 << 20};

/// A committed region.
Region region_of(AnyPageMemory& memory, Bytes size) {
  const Region region = must(memory.reserve(size));
  must(memory.commit(region, Bytes{0}, size));
  return region;
}

TEST_CASE("copies of a queue run in the order of the calls", "[gpu][queue]") {
  AnyPageMemory device = must(DeviceMemory::create(0));
  AnyPageMemory pinned = must(PinnedMemory::create(0));
  const Region a = region_of(device, kRegion);
  const Region b = region_of(device, kRegion);
  const Region staging = region_of(pinned, kRegion);
  auto queue = must(CudaQueue::create(0));
  auto* words = reinterpret_cast<std::uint32_t*>(staging.address);
  const auto count = static_cast<std::size_t>(kRegion.count() / 4);
  for (std::uint32_t round = 1; round <= 4; ++round) {
    std::fill_n(words, count, round);
    // Up, across, wiped, back, down: any two of these in another order give other bytes.
    must(queue.copy_async(a.address, staging.address, kRegion));
    must(queue.copy_async(b.address, a.address, kRegion));
    must(queue.fill_async(a.address, 0xEE, kRegion));
    must(queue.copy_async(staging.address, a.address, kRegion));
    must(queue.copy_async(a.address, b.address, kRegion));
    must(queue.fill_async(b.address, 0xDD, kRegion));
    const Ticket wiped = must(queue.record());
    must(queue.wait(wiped));
    CHECK(std::all_of(words, words + count, [](std::uint32_t w) { return w == 0xEEEEEEEE; }));
    must(queue.copy_async(staging.address, a.address, kRegion));
    test::drain(queue);
    CHECK(std::all_of(words, words + count, [&](std::uint32_t w) { return w == round; }));
  }
}

TEST_CASE("a completed ticket completes all earlier ones", "[gpu][queue][sanitize]") {
  AnyPageMemory device = must(DeviceMemory::create(0));
  const Region a = region_of(device, kRegion);
  auto queue = must(CudaQueue::create(0));
  std::vector<Ticket> tickets;
  for (int i = 0; i < 200; ++i) {
    must(queue.fill_async(a.address, static_cast<std::uint8_t>(i), kRegion));
    tickets.push_back(must(queue.record()));
  }
  CHECK(std::ranges::is_sorted(tickets));
  must(queue.wait(tickets[150]));
  for (std::size_t i = 0; i <= 150; ++i) {
    CHECK(must(queue.query(tickets[i])));
  }
  while (!must(queue.query(tickets.back()))) {
  }
  CHECK(must(queue.query(tickets[151])));
  must(queue.wait(tickets[0]));
}

TEST_CASE("a query does not wait", "[gpu][queue]") {
  AnyPageMemory device = must(DeviceMemory::create(0, Bytes{2 << 20}));
  const Bytes size{std::int64_t{4} << 30};
  const Region a = region_of(device, size);
  auto queue = must(CudaQueue::create(0));
  // Some 200 ms of work.
  for (int i = 0; i < 100; ++i) {
    must(queue.fill_async(a.address, 1, size));
  }
  const Ticket ticket = must(queue.record());
  CHECK_FALSE(must(queue.query(ticket)));
  must(queue.wait(ticket));
  CHECK(must(queue.query(ticket)));
}

TEST_CASE("tickets and copies that cannot be are refused", "[gpu][queue]") {
  auto queue = must(CudaQueue::create(0));
  CHECK(test::code_of(queue.query(Ticket{0})) == ErrorCode::kInvalidArgument);
  CHECK(test::code_of(queue.wait(Ticket{0})) == ErrorCode::kInvalidArgument);
  CHECK(test::code_of(queue.copy_async(0, 4096, Bytes{1})) == ErrorCode::kInvalidArgument);
  CHECK(test::code_of(queue.fill_async(0, 1, Bytes{1})) == ErrorCode::kInvalidArgument);
  CHECK(test::code_of(queue.copy_async(4096, 4096, Bytes{-1})) == ErrorCode::kInvalidArgument);
  CHECK(queue.copy_async(4096, 8192, Bytes{0}).has_value());
  CHECK(test::code_of(CudaQueue::create(99)) == ErrorCode::kInvalidArgument);
}

TEST_CASE("a queue on another's stream has its order", "[gpu][queue][sanitize]") {
  AnyPageMemory device = must(DeviceMemory::create(0));
  const Region a = region_of(device, Bytes{2 << 20});
  auto owner = must(CudaQueue::create(0));
  auto guest = must(CudaQueue::on_stream(0, owner.stream()));
  CHECK(guest.stream() == owner.stream());
  for (int i = 0; i < 50; ++i) {
    must(owner.fill_async(a.address, 1, a.size));
    must(guest.fill_async(a.address, 2, a.size));
  }
  test::drain(guest);
  CHECK(test::read_bytes(guest, a.address, 1).front() == 2);
}

}  // namespace
}  // namespace kvpool
