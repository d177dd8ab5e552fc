// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// The block manager's calls in an engine's step. One iteration is one operation; what prepares it
// is not timed. Pages come and go in random order, as they do after hours of service. The counter
// `allocations` is the number of heap allocations per operation in the timed part. Limits: see
// docs/benchmarks.md.
#include <kvpool/block/block_manager.hpp>

#include <kvpool/block/page_pool.hpp>
#include <kvpool/block/table_batch.hpp>
#include <kvpool/memory/host_memory.hpp>

#include "block_manager_scenes.hpp"
#include "support/block_pools.hpp"
#include "support/counting_new.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace kvpool {
namespace {

using test::must;

/// Reports what was allocated between construction and destruction, per iteration.
class AllocationReport {
 public:
  explicit AllocationReport(benchmark::State& state) : state_{state} {}
  AllocationReport(const AllocationReport&) = delete;
  AllocationReport& operator=(const AllocationReport&) = delete;
  ~AllocationReport() {
    state_.counters["allocations"] =
        benchmark::Counter(static_cast<double>(test::allocations() - before_ - untimed_),
                           benchmark::Counter::kAvgIterations);
  }
  /// Runs `work` outside of time and count.
  template <typename Work>
  void pause(Work&& work) {
    state_.PauseTiming();
    const std::int64_t before = test::allocations();
    work();
    untimed_ += test::allocations() - before;
    state_.ResumeTiming();
  }

 private:
  benchmark::State& state_;
  std::int64_t before_ = test::allocations();
  std::int64_t untimed_ = 0;
};

// Steps -------------------------------------------------------------------------------------------

void decode_step(benchmark::State& state) {
  bench::DecodeScene scene{state.range(0), state.range(1)};
  scene.restart();
  AllocationReport report{state};
  for (auto _ : state) {
    if (scene.is_over()) {
      report.pause([&] { scene.restart(); });
    }
    scene.decode();
  }
}
BENCHMARK(decode_step)
    ->Name("DecodeStep")
    ->Args({256, 1})
    ->Args({256, 6})
    ->Args({1024, 1})
    ->Unit(benchmark::kMicrosecond);

void decode_step_speculative(benchmark::State& state) {
  bench::SpeculativeScene scene{state.range(0)};
  scene.restart();
  AllocationReport report{state};
  for (auto _ : state) {
    if (scene.is_over()) {
      report.pause([&] { scene.restart(); });
    }
    scene.decode();
  }
}
BENCHMARK(decode_step_speculative)
    ->Name("DecodeStepSpeculative")
    ->Arg(256)
    ->Unit(benchmark::kMicrosecond);

// Prefixes ----------------------------------------------------------------------------------------

void prefix_full_hit(benchmark::State& state) {
  bench::PrefixScene scene{1, state.range(0), false};
  AllocationReport report{state};
  for (auto _ : state) {
    benchmark::DoNotOptimize(scene.match(0));
  }
  if (scene.match(0) != Tokens{state.range(0)}) {
    state.SkipWithError("not a full hit");
  }
}
BENCHMARK(prefix_full_hit)->Name("PrefixFullHit")->Arg(131'072)->Unit(benchmark::kMicrosecond);

void memcmp_of_tokens(benchmark::State& state) {
  const std::vector<std::int32_t> a = bench::random_tokens(1, state.range(0));
  const std::vector<std::int32_t> b = a;
  const std::size_t bytes = a.size() * sizeof(std::int32_t);
  const std::int32_t* first = a.data();
  const std::int32_t* second = b.data();
  for (auto _ : state) {
    // Hidden from the compiler, which knows what comparing equal vectors gives.
    benchmark::DoNotOptimize(first);
    benchmark::DoNotOptimize(second);
    benchmark::DoNotOptimize(std::memcmp(first, second, bytes));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(memcmp_of_tokens)->Name("Memcmp")->Arg(131'072)->Unit(benchmark::kMicrosecond);

void prefix_miss(benchmark::State& state) {
  bench::PrefixScene scene{4096, 512, true};
  const std::vector<std::int32_t> order = bench::random_order(4096);
  AllocationReport report{state};
  std::size_t next = 0;
  std::int64_t hits = 0;
  for (auto _ : state) {
    hits += scene.miss(order[next++ % order.size()]).count();
  }
  if (hits != 0) {
    state.SkipWithError("a hit");
  }
}
BENCHMARK(prefix_miss)->Name("PrefixMiss");

void prefix_match_512(benchmark::State& state) {
  bench::PrefixScene scene{4096, 512, false};
  const std::vector<std::int32_t> order = bench::random_order(4096);
  AllocationReport report{state};
  std::size_t next = 0;
  std::int64_t hits = 0;
  for (auto _ : state) {
    hits += scene.match(order[next++ % order.size()]).count();
  }
  if (hits != 512 * static_cast<std::int64_t>(state.iterations())) {
    state.SkipWithError("not a hit");
  }
}
BENCHMARK(prefix_match_512)->Name("PrefixMatch512");

// Pages -------------------------------------------------------------------------------------------

void allocate_page(benchmark::State& state) {
  bench::PageScene scene{state.range(0)};
  scene.give_back();
  AllocationReport report{state};
  for (auto _ : state) {
    if (scene.is_full()) {
      report.pause([&] { scene.give_back(); });
    }
    scene.allocate();
  }
  state.counters["bytes_per_page"] = scene.metadata_bytes_per_page();
}
BENCHMARK(allocate_page)->Name("AllocatePage")->Arg(10'000)->Arg(10'000'000);

void free_page(benchmark::State& state) {
  bench::PageScene scene{state.range(0)};
  AllocationReport report{state};
  for (auto _ : state) {
    if (scene.is_half_empty()) {
      report.pause([&] { scene.refill(); });
    }
    scene.free();
  }
  state.counters["bytes_per_page"] = scene.metadata_bytes_per_page();
}
BENCHMARK(free_page)->Name("FreePage")->Arg(10'000)->Arg(10'000'000);

void evict_page(benchmark::State& state) {
  bench::CachedScene& scene = bench::cached_scene(state.range(0));
  AllocationReport report{state};
  for (auto _ : state) {
    if (scene.is_half_empty()) {
      report.pause([&] { scene.refill(); });
    }
    if (scene.evict() != Pages{1}) {
      state.SkipWithError("nothing was evicted");
      break;
    }
  }
  state.counters["bytes_per_page"] = scene.metadata_bytes_per_page();
}
BENCHMARK(evict_page)->Name("EvictPage")->Arg(10'000)->Arg(10'000'000);

void admit_cold(benchmark::State& state) {
  bench::ColdScene scene{state.range(0)};
  AllocationReport report{state};
  for (auto _ : state) {
    report.pause([&] { scene.empty(); });
    scene.admit();
  }
}
BENCHMARK(admit_cold)->Name("AdmitCold")->Arg(131'072)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvpool
