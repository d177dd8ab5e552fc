// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "gpu_verify/self_test.hpp"

#include <kvpool/cuda/cuda_queue.hpp>
#include <kvpool/cuda/device_memory.hpp>
#include <kvpool/cuda/gpu_info.hpp>
#include <kvpool/kernels/capabilities.hpp>
#include <kvpool/kernels/cuda.hpp>
#include <kvpool/kernels/self_test.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

namespace kvpool {
namespace {

constexpr int kPassed = 0;
constexpr int kWrong = 1;
constexpr int kDeviceOrIo = 4;
constexpr int kCannotRun = 77;

int fail(int code, const Error& error) {
  std::fprintf(stderr, "kvplan-gpu-verify: error: %s\n", to_string(error).c_str());
  return code;
}

std::string document(const GpuInfo& gpu, const kernels::SelfTestReport& report, double seconds) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const kernels::RowResult& row : report.rows) {
    rows.push_back({{"row", row.row},
                    {"cases", row.cases},
                    {"largest_ulp", row.largest_ulp},
                    {"finding", row.finding}});
  }
  const nlohmann::ordered_json document{{"schema", "kvpool.self_test/1"},
                                        {"gpu", gpu.name},
                                        {"passed", report.passed()},
                                        {"seconds", seconds},
                                        {"rows", std::move(rows)}};
  return document.dump(2) + '\n';
}

/// The first row that this GPU cannot run, or empty.
std::string row_for_another_gpu(const std::string& architecture) {
  for (const KernelCapability& row : kernels::bundled_kernels()) {
    if (std::ranges::find(row.limits.architectures, architecture) ==
        row.limits.architectures.end()) {
      return row.name;
    }
  }
  return {};
}

}  // namespace

int self_test_on_gpu(bool json) {
  const auto gpu = gpu_info(0);
  if (!gpu) {
    return fail(gpu.error().code == ErrorCode::kUnsupported ? kCannotRun : kDeviceOrIo,
                gpu.error());
  }
  const std::string architecture = fmt::format("sm_{}", gpu->architecture);
  if (const std::string row = row_for_another_gpu(architecture); !row.empty()) {
    return fail(kCannotRun, {.code = ErrorCode::kUnsupported,
                             .message = fmt::format("{} is {}, for which {} is not compiled: set "
                                                    "CMAKE_CUDA_ARCHITECTURES and build again",
                                                    gpu->name, architecture, row)});
  }
  auto queue = CudaQueue::create(0);
  if (!queue) {
    return fail(kDeviceOrIo, queue.error());
  }
  auto memory = DeviceMemory::create(0);
  if (!memory) {
    return fail(kDeviceOrIo, memory.error());
  }
  const StreamHandle stream = queue->stream();
  const auto start = std::chrono::steady_clock::now();
  const auto report = kernels::self_test(
      {.append =
           [stream](const kernels::AppendParams& params) {
             return kernels::append(params, stream);
           },
       .attention =
           [stream](const kernels::AttentionParams& params) {
             return kernels::attention(params, stream);
           },
       .plan_packed =
           [stream](const kernels::PackedPlanParams& params) {
             return kernels::plan_packed_attention(params, stream);
           },
       .packed =
           [stream](const kernels::AttentionParams& params, const kernels::PackedOptions& options) {
             return kernels::packed_attention(params, options, stream);
           },
       .queue = *queue,
       .scratch = *memory,
       .multiprocessors = gpu->multiprocessors},
      kernels::bundled_kernels());
  if (!report) {
    return fail(kDeviceOrIo, report.error());
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (json) {
    std::fputs(document(*gpu, *report, seconds).c_str(), stdout);
  } else {
    std::printf("%s\n%s%s in %.1f s\n", gpu->name.c_str(), report->text().c_str(),
                report->passed() ? "all rows are right" : "NOT all rows are right", seconds);
  }
  return report->passed() ? kPassed : kWrong;
}

}  // namespace kvpool
