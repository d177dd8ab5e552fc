// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/cuda_queue.hpp>
#include <kvpool/cuda/device_memory.hpp>
#include <kvpool/cuda/gpu_info.hpp>
#include <kvpool/cuda/pinned_memory.hpp>
#include <kvpool/cuda/stream_capture.hpp>
#include <kvpool/cuda/vmm_memory.hpp>

#include "cuda/cuda_error.hpp"
#include "cuda/driver_api.hpp"
#include "support/catch.hpp"
#include "support/page_memory_suite.hpp"

namespace kvpool {
namespace {

/// Whether these cases have something to look at: GPUs are the business of other programs.
bool no_gpu() {
  const auto count = gpu_count();
  REQUIRE(count.has_value());
  if (*count > 0) {
    WARN("this machine has a GPU: nothing checked");
  }
  return *count == 0;
}

TEST_CASE("without a GPU everything is unsupported, and says why", "[cuda]") {
  if (!no_gpu()) {
    return;
  }
  const auto check = [](const auto& result) {
    REQUIRE(test::code_of(result) == ErrorCode::kUnsupported);
    CHECK_THAT(result.error().message, Catch::Matchers::ContainsSubstring("GPU"));
  };
  for (int again = 0; again < 2; ++again) {
    check(DeviceMemory::create(0));
    check(VmmMemory::create(0));
    check(PinnedMemory::create(0));
    check(CudaQueue::create(0));
    check(CudaQueue::on_stream(0, StreamHandle{}));
    check(gpu_info(0));
    check(gpu_free_bytes(0));
    check(stream_is_capturing(StreamHandle{}));
    // Whatever the ordinal: none exists.
    check(DeviceMemory::create(7));
  }
}

TEST_CASE("a negative device does not exist", "[cuda]") {
  CHECK(test::code_of(DeviceMemory::create(-1)) == ErrorCode::kInvalidArgument);
  CHECK(test::code_of(VmmMemory::create(-1)) == ErrorCode::kInvalidArgument);
  CHECK(test::code_of(PinnedMemory::create(-1)) == ErrorCode::kInvalidArgument);
  CHECK(test::code_of(CudaQueue::create(-1)) == ErrorCode::kInvalidArgument);
  CHECK(test::code_of(gpu_info(-1)) == ErrorCode::kInvalidArgument);
}

TEST_CASE("a granule that no memory can have is refused before the GPU is asked", "[cuda]") {
  for (const Bytes granularity :
       {Bytes{0}, Bytes{-256}, Bytes{100}, Bytes{std::int64_t{1} << 41}}) {
    CAPTURE(granularity.count());
    CHECK(test::code_of(DeviceMemory::create(0, granularity)) == ErrorCode::kInvalidArgument);
    CHECK(test::code_of(PinnedMemory::create(0, granularity)) == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("a driver that is there and cannot be used is a failure, not the absence of GPUs",
          "[cuda]") {
  CHECK(means_no_gpu(cudaErrorNoDevice, 13'000));
  CHECK(means_no_gpu(cudaErrorInsufficientDriver, 0));
  CHECK_FALSE(means_no_gpu(cudaErrorInsufficientDriver, 11'080));
  CHECK_FALSE(means_no_gpu(cudaErrorInsufficientDriver, -1));
  for (const cudaError_t broken :
       {cudaErrorSystemDriverMismatch, cudaErrorStubLibrary, cudaErrorSystemNotReady,
        cudaErrorInitializationError, cudaErrorDevicesUnavailable}) {
    CAPTURE(cudaGetErrorName(broken));
    CHECK_FALSE(means_no_gpu(broken, 0));
    CHECK_FALSE(means_no_gpu(broken, 13'000));
    CHECK(cuda_error("a call", broken).code == ErrorCode::kDevice);
  }
  CHECK_FALSE(means_no_gpu(cudaErrorCompatNotSupportedOnDevice, 13'000));
}

TEST_CASE("a plan's granule is a multiple of the device's, or an error names both", "[cuda]") {
  const Bytes device{2 << 20};
  CHECK(check_plan_granule(Bytes{2 << 20}, device, 0).has_value());
  CHECK(check_plan_granule(Bytes{6 << 20}, device, 0).has_value());
  for (const Bytes granule : {Bytes{256}, Bytes{65'536}, Bytes{3 << 20}}) {
    const auto checked = check_plan_granule(granule, device, 1);
    REQUIRE(test::code_of(checked) == ErrorCode::kInvalidArgument);
    CHECK_THAT(checked.error().message,
               Catch::Matchers::ContainsSubstring("device 1 maps granules of 2"));
  }
  CHECK_THAT(check_plan_granule(Bytes{256}, device, 1).error().message,
             Catch::Matchers::ContainsSubstring("granules of 256 B, but"));
}

}  // namespace
}  // namespace kvpool
