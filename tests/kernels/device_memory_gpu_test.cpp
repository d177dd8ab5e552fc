// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/device_memory.hpp>
#include <kvpool/cuda/pinned_memory.hpp>
#include <kvpool/cuda/vmm_memory.hpp>

#include "gpu_support.hpp"
#include "support/page_memory_suite.hpp"

#include <cstdlib>

namespace kvpool {
namespace {

using test::must;

TEST_CASE("cudaMalloc memory keeps the contract of page memory", "[gpu][memory]") {
  const auto granularity = GENERATE(Bytes{2 << 20}, Bytes{6 << 20}, Bytes{32 << 20});
  CAPTURE(granularity.count());
  test::page_memory_suite(
      {.make = [&] { return AnyPageMemory{must(DeviceMemory::create(0, granularity))}; },
       .writable = false});
}

TEST_CASE("a plan whose granules the device does not have is refused", "[gpu][memory]") {
  const Bytes smallest = must(gpu_info(0)).granularity;
  if (smallest != Bytes{2 << 20}) {
    test::skip("the device's granule is not 2 MiB");
    return;
  }
  for (const Bytes granularity : {Bytes{256}, Bytes{65'536}, Bytes{3 << 20}}) {
    const auto allocated = DeviceMemory::create(0, granularity);
    const auto mapped = VmmMemory::create(0, granularity);
    REQUIRE(!allocated.has_value());
    REQUIRE(!mapped.has_value());
    CHECK(allocated.error().code == ErrorCode::kInvalidArgument);
    CHECK_THAT(allocated.error().message,
               Catch::Matchers::ContainsSubstring("device 0 maps granules of 2"));
    CHECK(allocated.error().message == mapped.error().message);
  }
}

TEST_CASE("virtual memory keeps the contract of page memory", "[gpu][memory]") {
  const auto granularity = GENERATE(Bytes{2 << 20}, Bytes{6 << 20}, Bytes{32 << 20});
  CAPTURE(granularity.count());
  test::page_memory_suite(
      {.make = [&] { return AnyPageMemory{must(VmmMemory::create(0, granularity))}; },
       .writable = false});
}

TEST_CASE("pinned memory keeps the contract of page memory", "[gpu][memory]") {
  const auto granularity = GENERATE(Bytes{256}, Bytes{4096}, Bytes{2 << 20});
  CAPTURE(granularity.count());
  test::page_memory_suite(
      {.make = [&] { return AnyPageMemory{must(PinnedMemory::create(0, granularity))}; },
       .writable = true});
}

TEST_CASE("granules of virtual memory are those of the device", "[gpu][memory]") {
  const GpuInfo gpu = must(gpu_info(0));
  INFO(gpu.name << ", granules of " << gpu.granularity.count() << " bytes");
  CHECK(gpu.has_virtual_memory);
  CHECK(must(VmmMemory::create(0)).granularity() == gpu.granularity);
  CHECK(gpu.granularity == Bytes{2 << 20});
  CHECK(gpu.multiprocessors > 0);
  // What the planner takes an H200 to have.
  if (gpu.name == "NVIDIA H200") {
    CHECK(gpu.multiprocessors == 132);
  }
}

TEST_CASE("a plan's granule that the device does not map is an error that names both",
          "[gpu][memory]") {
  const auto memory = VmmMemory::create(0, Bytes{1 << 20});
  REQUIRE(test::code_of(memory) == ErrorCode::kInvalidArgument);
  CHECK_THAT(memory.error().message, Catch::Matchers::ContainsSubstring("1,048,576"));
  CHECK_THAT(memory.error().message, Catch::Matchers::ContainsSubstring("2,097,152"));
}

TEST_CASE("mapping takes what it maps from the device, and decommitting gives it back",
          "[gpu][memory]") {
  AnyPageMemory memory = must(VmmMemory::create(0));
  const Bytes granule = memory.granularity();
  // The driver's tables of the address range come and go in steps of their own.
  const auto near = [](std::int64_t a, std::int64_t b) { return std::abs(a - b) <= (4 << 20); };
  const std::int64_t before = test::free_bytes();
  const Region region = must(memory.reserve(granule * 4096));
  CHECK(near(test::free_bytes(), before));
  must(memory.commit(region, granule * 1024, granule * 2048));
  CHECK(near(before - test::free_bytes(), 2048 * granule.count()));
  must(memory.decommit(region, granule * 1536, granule * 1024));
  CHECK(near(before - test::free_bytes(), 1024 * granule.count()));
  must(memory.commit(region, granule * 1536, granule * 1024));
  CHECK(near(before - test::free_bytes(), 2048 * granule.count()));
  must(memory.release(region));
  CHECK(near(test::free_bytes(), before));
}

TEST_CASE("the last handle gives back what is still reserved", "[gpu][memory]") {
  const std::int64_t before = test::free_bytes();
  {
    AnyPageMemory mapped = must(VmmMemory::create(0));
    AnyPageMemory allocated = must(DeviceMemory::create(0));
    for (AnyPageMemory* memory : {&mapped, &allocated}) {
      const Region region = must(memory->reserve(Bytes{std::int64_t{1} << 30}));
      must(memory->commit(region, Bytes{0}, region.size));
    }
    CHECK(before - test::free_bytes() >= std::int64_t{2} << 30);
  }
  CHECK(std::abs(before - test::free_bytes()) <= (4 << 20));
}

TEST_CASE("what is mapped keeps its bytes while others come and go", "[gpu][memory][sanitize]") {
  AnyPageMemory memory = must(VmmMemory::create(0));
  auto queue = must(CudaQueue::create(0));
  const Bytes granule = memory.granularity();
  const Region region = must(memory.reserve(granule * 8));
  const auto at = [&](std::int64_t index) {
    return region.address + static_cast<std::uintptr_t>((granule * index).count());
  };
  must(memory.commit(region, Bytes{0}, region.size));
  // One fill and one copy across all granules: they are one range of addresses.
  must(queue.fill_async(region.address, 0x11, region.size));
  must(queue.fill_async(at(7), 0x77, granule));
  test::drain(queue);
  must(memory.decommit(region, granule * 2, granule * 3));
  must(memory.commit(region, granule * 2, granule * 3));
  must(queue.fill_async(at(2), 0x22, granule * 3));
  const auto size = static_cast<std::size_t>(granule.count());
  const auto bytes = test::read_bytes(queue, region.address, size * 8);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::uint8_t expected = i == 7 ? 0x77 : i >= 2 && i < 5 ? 0x22 : 0x11;
    CAPTURE(i);
    CHECK(bytes[i * size] == expected);
    CHECK(bytes[i * size + size - 1] == expected);
  }
}

TEST_CASE("more than the device has is exhausted, and changes nothing", "[gpu][memory]") {
  const Bytes total = must(gpu_info(0)).total;
  AnyPageMemory allocated = must(DeviceMemory::create(0));
  CHECK(test::code_of(allocated.reserve(align_up(total, Bytes{2 << 20}))) == ErrorCode::kExhausted);
  // Granules of 1 GiB, so that the device is full after few.
  AnyPageMemory mapped = must(VmmMemory::create(0, Bytes{std::int64_t{1} << 30}));
  const std::int64_t before = test::free_bytes();
  const Region region = must(mapped.reserve(align_up(total, mapped.granularity())));
  CHECK(test::code_of(mapped.commit(region, Bytes{0}, region.size)) == ErrorCode::kExhausted);
  CHECK(mapped.held() == Bytes{0});
  CHECK(std::abs(before - test::free_bytes()) <= (64 << 20));
  must(mapped.commit(region, Bytes{0}, mapped.granularity()));
}

}  // namespace
}  // namespace kvpool
