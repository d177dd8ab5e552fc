// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "memory_suites.hpp"

#include <kvpool/kernels/cuda.hpp>

#include "device_helpers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace kvpool::bench {
namespace {

void must(const Result<void>& result) {
  if (!result.has_value()) {
    std::fprintf(stderr, "error: %s\n", to_string(result.error()).c_str());
    std::exit(4);  // NOLINT(concurrency-mt-unsafe): one thread
  }
}

/// Copies of `bytes` bytes in the device, cold: the sources and targets of a graph are over 800 MB.
double time_copy(Pool& pool, std::size_t bytes) {
  const std::size_t turns = std::max<std::size_t>(1, 800'000'000 / bytes);
  auto* const data = static_cast<char*>(pool.at_least(2 * bytes * turns));
  const int count = static_cast<int>(std::min<std::size_t>(turns, 512));
  return time_graph(count, 9, [&](cudaStream_t stream) {
    for (int i = 0; i < count; ++i) {
      char* const from = data + 2 * bytes * static_cast<std::size_t>(i);
      copy_bytes(from + bytes, from, bytes, stream);
    }
  });
}

std::vector<std::int32_t> shuffled(std::int32_t count) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937{3});
  return order;
}

}  // namespace

double copy_rate() {
  constexpr std::size_t kBytes = 2'000'000'000;
  const DeviceArray from{kBytes};
  const DeviceArray to{kBytes};
  fill_bf16(from.get(), kBytes, 5, nullptr);
  const double us = time_graph(2, 9, [&](cudaStream_t stream) {
    for (int i = 0; i < 2; ++i) {
      copy_bytes(to.get(), from.get(), kBytes, stream);
    }
  });
  return 2.0 * kBytes / us * 1e-6;
}

void run_append(Pool& pool, Csv& csv) {
  constexpr std::int64_t kHeads = 8;
  constexpr std::int64_t kDim = 128;
  constexpr std::int64_t kPage = 32;
  constexpr std::int64_t kTokenBytes = 2 * kHeads * kDim;  // K or V
  for (const bool hnd : {true, false}) {
    for (const std::int32_t tokens : {64, 512, 4096}) {
      // Enough pages and sources that each launch of a graph finds neither in the L2.
      const std::int64_t per_launch = tokens * kTokenBytes * 4;
      const auto turns =
          static_cast<int>(std::clamp<std::int64_t>(800'000'000 / per_launch, 1, 256));
      // A prompt fills its pages; the tokens of a decode step lie in a page of their own each.
      const bool prompt = tokens == 4096;
      const std::int64_t pages = std::int64_t{turns} * tokens / (prompt ? kPage : 1);
      auto* const base = static_cast<char*>(
          pool.at_least(static_cast<std::size_t>(pages * kPage * kTokenBytes * 2)));
      const DeviceArray source{static_cast<std::size_t>(turns * tokens * kTokenBytes * 2)};
      fill_bf16(source.get(), source.size(), 11, nullptr);
      std::vector<std::int64_t> slots;
      for (const std::int32_t page : shuffled(static_cast<std::int32_t>(pages))) {
        for (std::int64_t i = 0; i < (prompt ? kPage : 1); ++i) {
          slots.push_back(page * kPage + (prompt ? i : page % kPage));
        }
      }
      const DeviceArray mapping{slots};
      kernels::AppendParams params;
      params.k_cache = {.base = base,
                        .entry_stride_bytes = kPage * kTokenBytes * 2,
                        .head_stride_bytes = hnd ? kPage * kDim * 2 : kDim * 2,
                        .slot_stride_bytes = hnd ? kDim * 2 : kTokenBytes,
                        .dim = kDim};
      params.v_cache = params.k_cache;
      params.v_cache.base = base + kPage * kTokenBytes;
      params.k_token_stride = params.v_token_stride = kHeads * kDim;
      params.k_head_stride = params.v_head_stride = kDim;
      params.tokens = tokens;
      params.kv_heads = kHeads;
      params.tokens_per_block = kPage;
      Line line{.kernel = "append",
                .batch = tokens,
                .kv_heads = kHeads,
                .head_dim = kDim,
                .page = kPage,
                .layout = hnd ? "HND" : "NHD",
                .q_len = 1,
                .bytes = static_cast<double>(per_launch)};
      line.us = time_graph(turns, 15, [&](cudaStream_t stream) {
        for (int i = 0; i < turns; ++i) {
          const auto at = static_cast<std::size_t>(i) * static_cast<std::size_t>(tokens);
          params.k = source.get(at * kTokenBytes * 2);
          params.v = source.get((at * 2 + static_cast<std::size_t>(tokens)) * kTokenBytes);
          params.slot_mapping = mapping.get<std::int64_t>(at * 8);
          must(kernels::append(params, {stream}));
        }
      });
      line.ref_us = time_copy(pool, static_cast<std::size_t>(per_launch / 2));
      csv.line(line);
    }
  }
}

void run_page_copy(Pool& pool, Csv& csv) {
  for (const std::int64_t page_bytes : {65'536, 1 << 20}) {
    for (const std::int64_t mebibytes : {4, 64, 512}) {
      const std::int64_t bytes = mebibytes << 20U;
      const auto count = static_cast<std::int32_t>(bytes / page_bytes);
      const auto turns = static_cast<int>(std::clamp<std::int64_t>(800'000'000 / bytes, 1, 64));
      auto* const base =
          static_cast<char*>(pool.at_least(static_cast<std::size_t>(2 * bytes * turns)));
      std::vector<kernels::PageCopyPair> pairs;
      const auto order = shuffled(2 * count * turns);
      for (std::size_t i = 0; i < order.size(); i += 2) {
        pairs.push_back({.source = order[i], .destination = order[i + 1]});
      }
      const DeviceArray device_pairs{pairs};
      kernels::PageCopyParams params{.source = base,
                                     .destination = base,
                                     .source_entry_stride_bytes = page_bytes,
                                     .destination_entry_stride_bytes = page_bytes,
                                     .part_bytes = page_bytes,
                                     .parts = 1,
                                     .count = count};
      Line line{.kernel = "page_copy",
                .batch = count,
                .page = page_bytes,
                .layout = "page-major",
                .bytes = 2.0 * static_cast<double>(bytes)};
      line.us = time_graph(turns, 11, [&](cudaStream_t stream) {
        for (int i = 0; i < turns; ++i) {
          params.pairs = device_pairs.get<kernels::PageCopyPair>(
              static_cast<std::size_t>(i * count) * sizeof(kernels::PageCopyPair));
          must(kernels::copy_pages(params, {stream}));
        }
      });
      line.ref_us = time_copy(pool, static_cast<std::size_t>(bytes));
      csv.line(line);
    }
  }
}

}  // namespace kvpool::bench
