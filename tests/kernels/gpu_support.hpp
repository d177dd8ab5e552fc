// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What tests on a GPU share: bytes to and from the device, and measurements for whoever keeps them.
#pragma once

#include <kvpool/cuda/cuda_queue.hpp>
#include <kvpool/cuda/gpu_info.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kvpool::test {

/// The value of a result that has to be one.
template <typename T>
T must(Result<T> result) {
  if (!result.has_value()) {
    FAIL(to_string(result.error()));
  }
  return std::move(result).value();
}

inline void must(const Result<void>& result) {
  if (!result.has_value()) {
    FAIL(to_string(result.error()));
  }
}

/// Test cases that this process skipped.
inline std::size_t& skipped_cases() {
  static std::size_t count = 0;
  return count;
}

/// Skips a test case that this GPU cannot run; the caller returns. Catch2 2 knows no skipped test
/// cases, so a line of standard error says so, by which `run_gpu_bundle.sh` finds it, and a process
/// that has run no other test case ends with 77. Catch2 3 leaves the test case here.
inline void skip(const std::string& reason) {
  ++skipped_cases();
  std::fprintf(stderr, "skipped test case: %s: %s\n",
               Catch::getResultCapture().getCurrentTestName().c_str(), reason.c_str());
#ifdef SKIP
  SKIP(reason);
#else
  SUCCEED(reason);  // or the JUnit document would have no entry that can be marked
#endif
}

/// Waits for everything that was enqueued.
inline void drain(CudaQueue& queue) { must(queue.wait(must(queue.record()))); }

/// Bytes of the device.
inline std::vector<std::uint8_t> read_bytes(CudaQueue& queue, std::uintptr_t address,
                                            std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  must(queue.copy_async(address_of(bytes.data()), address, Bytes{static_cast<std::int64_t>(size)}));
  drain(queue);
  return bytes;
}

/// Free memory of the GPU, over all processes.
inline std::int64_t free_bytes() { return must(gpu_free_bytes(0)).count(); }

/// A table in the folder that KVPOOL_GPU_OUT names, if it names one. A test may measure without
/// anybody keeping it.
class Measurements {
 public:
  Measurements(const std::string& name, const std::string& columns) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    if (const char* folder = std::getenv("KVPOOL_GPU_OUT"); folder != nullptr) {
      file_.open(std::string{folder} + "/" + name + ".csv");
      file_ << columns << '\n';
    }
  }

  template <typename... Values>
  void row(const Values&... values) {
    const char* separator = "";
    ((file_ << separator, write(values), separator = ","), ...);
    file_ << '\n';
  }

 private:
  template <typename Value>
  void write(const Value& value) {
    if constexpr (std::is_convertible_v<Value, std::string_view>) {
      file_ << std::quoted(std::string_view{value}, '"', '"');  // names of tests have commas
    } else {
      file_ << value;
    }
  }

  std::ofstream file_;
};

}  // namespace kvpool::test
