// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// kvplan-gpu-verify PLAN.json: allocates a plan on a GPU, stage by stage, and validates its
// geometry. kvplan-gpu-verify --self-test [--json]: runs the kernel of every bundled row. A program
// of its own, so that kvplan never links CUDA; `kvplan plan --verify-on-gpu` and `kvplan kernels
// --self-test` run it.
//
// Exit codes: 0 all stages as planned, all rows right, 1 not so, 2 wrong command line, 3 bad plan,
// 4 no GPU, it failed, or a stage does not fit into its free memory; of a self-test 77 where no GPU
// is that the kernels are compiled for.
#include <kvpool/core/size_text.hpp>
#include <kvpool/cuda/device_memory.hpp>
#include <kvpool/cuda/gpu_info.hpp>
#include <kvpool/cuda/poison.hpp>
#include <kvpool/cuda/vmm_memory.hpp>
#include <kvpool/io/plan_document.hpp>
#include <kvpool/kernels/validate_geometry_cuda.hpp>

#include "gpu_verify/self_test.hpp"

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

/// How a rank fared. `kDoesNotFit`: this GPU has too little free memory, so nothing was looked at.
enum class Verdict { kAgrees, kDiffers, kDoesNotFit };

/// Bytes that a rank charges in all.
Bytes charged_by(const PoolPlan& rank) {
  Bytes sum{};
  for (const PoolAccount& account : rank.accounts) {
    sum += account.charged;
  }
  return sum;
}

/// Charged and held, pool by pool, and what went from the device meanwhile. The device's own count
/// is told and does not decide: other processes have a part in it.
bool report_bytes(const PoolSet& pools, Bytes held, Bytes taken) {
  bool agrees = true;
  for (const PoolCharge& line : pools.ledger()) {
    agrees = agrees && line.held == line.charged;
    std::printf("  pool %s: charged %s, held %s\n", line.pool.c_str(),
                size_text(line.charged).c_str(), size_text(line.held).c_str());
  }
  std::printf("  device: %lld bytes less are free, %lld are held: a difference of %lld\n",
              static_cast<long long>(taken.count()), static_cast<long long>(held.count()),
              static_cast<long long>(taken.count() - held.count()));
  return agrees;
}

/// One rank's pools on the GPU, which has their memory back afterwards.
Result<Verdict> verify(const PoolPlan& rank, const GpuInfo& gpu, CudaQueue& queue) {
  auto memory = memory_for(gpu, rank.pools.front().granularity);
  if (!memory) {
    return std::move(memory).error();
  }
  const auto before = gpu_free_bytes(0);
  if (!before) {
    return before.error();
  }
  if (charged_by(rank) > *before) {
    std::printf("  not verified: it needs %s, and %s are free\n",
                size_text(charged_by(rank)).c_str(), size_text(*before).c_str());
    return Verdict::kDoesNotFit;
  }
  const auto pools = create_pools(rank, *memory);
  if (!pools) {
    if (pools.error().code == ErrorCode::kInternal) {
      std::printf("  %s\n", to_string(pools.error()).c_str());
      return Verdict::kDiffers;
    }
    return pools.error();
  }
  const auto after = gpu_free_bytes(0);
  if (!after) {
    return after.error();
  }
  bool agrees = report_bytes(*pools, memory->held(), *before - *after);
  if (auto poisoned = poison_reserved_pages(*pools, queue); !poisoned) {
    return std::move(poisoned).error();
  }
  const auto report = kernels::validate_geometry(*pools, queue);
  if (!report) {
    return report.error();
  }
  const std::string text = report->text();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    std::printf("  %s\n", text.substr(at, end - at).c_str());
    at = end + 1;
  }
  agrees = agrees && report->passed();
  return agrees ? Verdict::kAgrees : Verdict::kDiffers;
}

/// All ranks, one after another: each has the GPU for itself, as it would in the deployment.
int verify_all(const Plan& plan, const GpuInfo& gpu) {
  auto queue = CudaQueue::create(0);
  if (!queue) {
    return fail(kDeviceOrIo, queue.error());
  }
  std::size_t verified = 0;
  bool agrees = true;
  for (const PoolPlan& rank : plan.ranks) {
    std::printf("%s, stage %lld of %zu:\n", gpu.name.c_str(), static_cast<long long>(rank.stage),
                plan.ranks.size());
    if (rank.pools.empty()) {
      std::puts("  it has no pools");
      ++verified;
      continue;
    }
    const auto verdict = verify(rank, gpu, *queue);
    if (!verdict) {
      return fail(kDeviceOrIo, verdict.error());
    }
    verified += *verdict == Verdict::kDoesNotFit ? 0U : 1U;
    agrees = agrees && *verdict != Verdict::kDiffers;
  }
  if (!agrees) {
    std::puts("verified on the GPU: NOT as planned");
    return kNotAsPlanned;
  }
  if (verified < plan.ranks.size()) {
    std::printf(
        "verified on the GPU: %zu of %zu stages as planned, the others do not fit into its "
        "free memory\n",
        verified, plan.ranks.size());
    return fail(kDeviceOrIo, {.code = ErrorCode::kExhausted,
                              .message = "not all stages were verified: free the GPU's memory, or "
                                         "use one as large as the plan's"});
  }
  std::printf("verified on the GPU: as planned, %zu of %zu stages\n", verified, verified);
  return kAsPlanned;
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
  return verify_all(*plan, *gpu);
}

}  // namespace
}  // namespace kvpool

int main(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  const bool json = argc == 3 && std::string_view{argv[2]} == "--json";
  if (first == "--self-test" && (argc == 2 || json)) {
    try {
      return kvpool::self_test_on_gpu(json);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "kvplan-gpu-verify: error: %s\n", error.what());
      return kvpool::kDeviceOrIo;
    }
  }
  if (argc != 2 || std::string_view{argv[1]}.starts_with('-')) {
    std::fputs(
        "kvplan-gpu-verify PLAN.json: allocates a plan on GPU 0, one stage after the other, and\n"
        "validates its geometry.\n"
        "kvplan-gpu-verify --self-test [--json]: runs the kernel of every bundled row on GPU 0.\n"
        "Run by 'kvplan plan --verify-on-gpu' and 'kvplan kernels --self-test'.\n",
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
