// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of a GPU for tests: buffers with a guard behind them, and pools, near and far.
#pragma once

#include <kvpool/cuda/vmm_memory.hpp>

#include "kernels/gpu_support.hpp"
#include "support/catch.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

namespace kvpool::test {

/// Fails the test if a call of the runtime failed.
inline void require_cuda(cudaError_t status) {
  INFO(cudaGetErrorString(status));
  REQUIRE(status == cudaSuccess);
}

/// Checks that bytes are equal. A failure names the first difference and does not print them all.
inline void check_bytes(const std::vector<std::byte>& actual,
                        const std::vector<std::byte>& expected) {
  REQUIRE(actual.size() == expected.size());
  const auto at = std::ranges::mismatch(actual, expected).in1 - actual.begin();
  INFO("first difference at byte " << at);
  CHECK(at == std::ssize(actual));
}

/// What memory holds before anything is written to it.
enum class Before {
  kNan,      ///< bytes 0xFF, which is NaN in every floating format
  kNothing,  ///< nothing that `compute-sanitizer --tool initcheck` takes for initialised
};

/// Memory of the device with a guard behind it.
class DeviceBytes {
 public:
  static constexpr std::size_t kGuard = 512;

  explicit DeviceBytes(std::size_t size, Before before = Before::kNan) : size_{size} {
    require_cuda(cudaMalloc(&data_, size + kGuard));
    require_cuda(cudaMemset(at(size), 0xFF, kGuard));
    if (before == Before::kNan) {
      require_cuda(cudaMemset(data_, 0xFF, size));
    }
  }
  template <typename T>
  explicit DeviceBytes(const std::vector<T>& values) : DeviceBytes{values.size() * sizeof(T)} {
    write(0, values.data(), size_);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { static_cast<void>(cudaFree(data_)); }

  void write(std::size_t offset, const void* from, std::size_t size) {
    require_cuda(cudaMemcpy(at(offset), from, size, cudaMemcpyHostToDevice));
  }
  /// Bytes of the device, after all work. The guard is checked too.
  template <typename T = std::byte>
  [[nodiscard]] std::vector<T> read(std::size_t offset, std::size_t count) const {
    require_cuda(cudaDeviceSynchronize());
    std::vector<T> values(count);
    require_cuda(cudaMemcpy(values.data(), at(offset), count * sizeof(T), cudaMemcpyDeviceToHost));
    std::vector<std::byte> guard(kGuard);
    require_cuda(cudaMemcpy(guard.data(), at(size_), kGuard, cudaMemcpyDeviceToHost));
    CHECK(guard == std::vector<std::byte>(kGuard, std::byte{0xFF}));
    return values;
  }
  [[nodiscard]] void* at(std::size_t offset) const {
    return static_cast<std::byte*>(data_) + offset;
  }
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

/// Bytes [first, first + size) of a pool's contents, which lie `gap` bytes further in its memory.
struct PoolPart {
  std::size_t first = 0;
  std::size_t size = 0;
  std::size_t gap = 0;
};

/// The memory of a pool. One of several parts is a range of addresses as large as they are apart,
/// of which only the granules with the parts in them are mapped: any other access faults.
class DevicePool {
 public:
  DevicePool(std::vector<PoolPart> parts, Before before) : parts_{std::move(parts)} {
    const PoolPart& last = parts_.back();
    if (parts_.size() == 1) {
      near_ = std::make_unique<DeviceBytes>(last.size, before);
      base_ = near_->at(0);
      return;
    }
    memory_ = std::make_unique<AnyPageMemory>(must(VmmMemory::create(0)));
    region_ = must(memory_->reserve(granules(last.first + last.gap + last.size)));
    base_ = reinterpret_cast<void*>(region_.address);  // NOLINT: an address of the device
    for (const PoolPart& part : parts_) {
      const Mapped mapped = mapped_of(part);
      must(memory_->commit(region_, Bytes{static_cast<std::int64_t>(mapped.first)},
                           Bytes{static_cast<std::int64_t>(mapped.size)}));
      require_cuda(cudaMemset(at(mapped.first), 0xFF, mapped.size));
    }
  }

  [[nodiscard]] void* base() const { return base_; }

  /// Fills the parts.
  void write(const std::vector<std::byte>& bytes) {
    for (const PoolPart& part : parts_) {
      require_cuda(cudaMemcpy(at(part.first + part.gap), bytes.data() + part.first, part.size,
                              cudaMemcpyHostToDevice));
    }
  }

  /// The parts, one after the other, after all work. What lies around them has to be as it was.
  [[nodiscard]] std::vector<std::byte> read() const {
    if (near_ != nullptr) {
      return near_->read(0, near_->size());
    }
    require_cuda(cudaDeviceSynchronize());
    std::vector<std::byte> result;
    for (const PoolPart& part : parts_) {
      const Mapped mapped = mapped_of(part);
      std::vector<std::byte> bytes(mapped.size);
      require_cuda(cudaMemcpy(bytes.data(), at(mapped.first), mapped.size, cudaMemcpyDeviceToHost));
      const auto begin =
          bytes.begin() + static_cast<std::ptrdiff_t>(part.first + part.gap - mapped.first);
      const auto end = begin + static_cast<std::ptrdiff_t>(part.size);
      result.insert(result.end(), begin, end);
      std::fill(begin, end, std::byte{0xFF});
      CHECK(std::ranges::count(bytes, std::byte{0xFF}) == std::ssize(bytes));
    }
    return result;
  }

 private:
  /// Granules that are mapped for a part.
  struct Mapped {
    std::size_t first = 0;
    std::size_t size = 0;
  };

  [[nodiscard]] Bytes granules(std::size_t size) const {
    return align_up(Bytes{static_cast<std::int64_t>(size)}, memory_->granularity());
  }
  [[nodiscard]] Mapped mapped_of(const PoolPart& part) const {
    const auto granule = static_cast<std::size_t>(memory_->granularity().count());
    const std::size_t begin = part.first + part.gap;
    const std::size_t first = begin / granule * granule;
    return {first, static_cast<std::size_t>(granules(begin + part.size).count()) - first};
  }
  [[nodiscard]] void* at(std::size_t offset) const {
    return static_cast<std::byte*>(base_) + offset;
  }

  std::vector<PoolPart> parts_;
  std::unique_ptr<DeviceBytes> near_;
  std::unique_ptr<AnyPageMemory> memory_;
  Region region_{};
  void* base_ = nullptr;
};

}  // namespace kvpool::test
