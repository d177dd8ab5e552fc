// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// kvplan-gpu-verify PLAN.json: allocates a plan on a GPU and validates its geometry. A program of
// its own, so that kvplan never links CUDA; `kvplan plan --verify-on-gpu` runs it.
//
// Exit codes: 0 as planned, 1 not as planned, 2 wrong command line, 3 bad plan, 4 no GPU, or it
// failed.
#include <kvpool/core/size_text.hpp>
#include <kvpool/cuda/device_memory.hpp>
#include <kvpool/cuda/gpu_info.hpp>
#include <kvpool/cuda/poison.hpp>
#include <kvpool/cuda/vmm_memory.hpp>
#include <kvpool/io/plan_document.hpp>
#include <kvpool/kernels/validate_geometry_cuda.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

namespace kvpool {
namespace {

constexpr int kAsPlanned = 0;
constexpr int kNotAsPlanned = 1;
constexpr int kUsage = 2;
constexpr int kBadInput = 3;
constexpr int kDeviceOrIo = 4;

int fail(int code, const Error& error) {
  std::fprintf(stderr, "kvplan-gpu-verify: error: %s\n", to_string(error).c_str());
  return code;
}

/// Mapped where the device can, since then what is held is exact.
Result<AnyPageMemory> memory_for(const GpuInfo& gpu, Bytes granularity) {
  if (gpu.has_virtual_memory) {
    auto memory = VmmMemory::create(0, granularity);
    if (!memory) {
      return std::move(memory).error();
    }
    return AnyPageMemory{*memory};
  }
  auto memory = DeviceMemory::create(0, granularity);
  if (!memory) {
    return std::move(memory).error();
  }
  return AnyPageMemory{*memory};
}

/// One rank's pools on the GPU.
int verify(const PoolPlan& rank, const GpuInfo& gpu) {
  const Bytes granularity = rank.pools.front().granularity;
  auto memory = memory_for(gpu, granularity);
  if (!memory) {
    return fail(kDeviceOrIo, memory.error());
  }
  auto queue = CudaQueue::create(0);
  if (!queue) {
    return fail(kDeviceOrIo, queue.error());
  }
  const auto pools = create_pools(rank, *memory);
  if (!pools) {
    return fail(pools.error().code == ErrorCode::kInternal ? kNotAsPlanned : kDeviceOrIo,
                pools.error());
  }
  std::printf("%s, stage %lld of the plan:\n", gpu.name.c_str(),
              static_cast<long long>(rank.stage));
  bool agrees = true;
  for (const PoolCharge& line : pools->ledger()) {
    agrees = agrees && line.held == line.charged;
    std::printf("  pool %s: charged %s, held %s\n", line.pool.c_str(),
                size_text(line.charged).c_str(), size_text(line.held).c_str());
  }
  if (auto poisoned = poison_reserved_pages(*pools, *queue); !poisoned) {
    return fail(kDeviceOrIo, poisoned.error());
  }
  const auto report = kernels::validate_geometry(*pools, *queue);
  if (!report) {
    return fail(kDeviceOrIo, report.error());
  }
  const std::string text = report->text();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    std::printf("  %s\n", text.substr(at, end - at).c_str());
    at = end + 1;
  }
  agrees = agrees && report->passed();
  std::puts(agrees ? "verified on the GPU: as planned" : "verified on the GPU: NOT as planned");
  return agrees ? kAsPlanned : kNotAsPlanned;
}

int run(const std::string& path) {
  // The GPU first: without one nothing else matters.
  const auto gpu = gpu_info(0);
  if (!gpu) {
    return fail(kDeviceOrIo, gpu.error());
  }
  const auto plan = io::read_plan(path);
  if (!plan) {
    return fail(plan.error().code == ErrorCode::kIo ? kDeviceOrIo : kBadInput, plan.error());
  }
  const PoolPlan* rank = plan->smallest();
  if (rank == nullptr || rank->pools.empty()) {
    return fail(kBadInput, {.code = ErrorCode::kUnsupported,
                            .message = "the plan has no pools: it was refused",
                            .file = path});
  }
  return verify(*rank, *gpu);
}

}  // namespace
}  // namespace kvpool

int main(int argc, char** argv) {
  if (argc != 2 || std::string_view{argv[1]}.starts_with('-')) {
    std::fputs(
        "kvplan-gpu-verify PLAN.json: allocates a plan on GPU 0 and validates its geometry.\n"
        "Run by 'kvplan plan --verify-on-gpu'.\n",
        stderr);
    return kvpool::kUsage;
  }
  try {
    return kvpool::run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kvplan-gpu-verify: error: %s\n", error.what());
  }
  return kvpool::kDeviceOrIo;
}
