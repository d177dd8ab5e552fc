// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "attention_case.hpp"

#include <kvpool/kernels/cuda.hpp>

#include "attention_setup.hpp"
#include "device_helpers.hpp"
#include "path_run.hpp"
#ifdef KVPOOL_PEER_FLASHINFER
#include "flashinfer.hpp"
#include "xqa.hpp"
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

namespace kvpool::bench {

/// The fastest of a few grids of the reader.
double time_paged_read(const Setup& setup, int per_graph, int replays) {
  const AttentionCase& c = setup.shape();
  const int multiprocessors = multiprocessors_of_device();
  double best = std::numeric_limits<double>::infinity();
  const bool even = c.lengths.empty();
  std::vector<int4> items;
  if (!even) {
    for (int row = 0; row < c.batch; ++row) {
      for (int head = 0; head < c.kv_heads; ++head) {
        for (int key = 0; key < setup.lengths()[static_cast<std::size_t>(row)]; key += 16) {
          items.push_back({row, head, key, 0});
        }
      }
    }
  }
  const DeviceArray device_items{items};
  for (const int grid : {2, 4, 8}) {
    best = std::min(best, time_graph(per_graph, replays, [&](cudaStream_t stream) {
                      for (int i = 0; i < per_graph; ++i) {
                        if (even) {
                          paged_read(setup.over(i), c.length, grid * multiprocessors, setup.sink(),
                                     stream);
                        } else {
                          paged_read_items(setup.over(i), device_items.get<int4>(),
                                           static_cast<std::int64_t>(items.size()),
                                           grid * multiprocessors, setup.sink(), stream);
                        }
                      }
                    }));
  }
  return best;
}

int multiprocessors_of_device() {
  int count = 0;
  require(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), "asking the device");
  return count;
}

void* Pool::at_least(std::size_t bytes) {
  if (memory_ == nullptr || memory_->size() < bytes) {
    memory_.reset();
    memory_ = std::make_unique<DeviceArray>(bytes);
    fill_bf16(memory_->get(), bytes, 7, nullptr);
    require(cudaDeviceSynchronize(), "filling the pool");
  }
  return memory_->get();
}

bool Pool::fits(std::size_t bytes) const {
  constexpr std::size_t kOther = 2'000'000'000;  // tables, queries, outputs, the driver
  std::size_t free = 0;
  std::size_t total = 0;
  require(cudaMemGetInfo(&free, &total), "asking the device");
  return bytes + kOther <= free + (memory_ == nullptr ? 0 : memory_->size());
}

std::size_t pool_bytes(const AttentionCase& c) {
  std::int64_t pages = 0;
  for (int row = 0; row < c.batch; ++row) {
    const std::int64_t length =
        c.lengths.empty() ? c.length : c.lengths[static_cast<std::size_t>(row)];
    pages += (length + c.page - 1) / c.page;
  }
  return static_cast<std::size_t>(std::int64_t{4} * c.page * c.kv_heads * c.head_dim * c.layers *
                                  (pages + 1));
}

#ifdef KVPOOL_PEER_FLASHINFER
namespace {

/// What XQA takes with each launch, over any of the page tables.
class XqaRun {
 public:
  explicit XqaRun(const Setup& setup)
      : setup_{setup}, mask_{masks_of(setup)}, semaphores_{4 << 20}, scratch_{512 << 20} {
    semaphores_.set(0);
  }
  /// Whether it is compiled for this case.
  static bool takes(const AttentionCase& c) {
    return c.head_dim == peers::kXqaDim && c.q_heads == peers::kXqaGroup * c.kv_heads &&
           c.page == peers::kXqaPage && c.q_len > 1 && c.q_len <= peers::kXqaMostQueries;
  }
  void launch(int table, cudaStream_t stream) const {
    const kernels::AttentionParams params = setup_.over(table);
    peers::launch_xqa({.q = params.q,
                       .out = params.out,
                       .k = params.k.base,
                       .v = params.v.base,
                       .entries = params.table.entries,
                       .lengths = params.table.lengths,
                       .mask = mask_.get<std::uint32_t>(),
                       .semaphores = semaphores_.get<std::uint32_t>(),
                       .scratch = scratch_.get(),
                       .page_stride = params.k.entry_stride_bytes / 2,
                       .token_stride = params.k.slot_stride_bytes / 2,
                       .head_stride = params.k.head_stride_bytes / 2,
                       .multiprocessors = static_cast<std::uint32_t>(multiprocessors_of_device()),
                       .kv_heads = static_cast<std::uint32_t>(params.kv_heads),
                       .rows = static_cast<std::uint32_t>(params.table.rows),
                       .queries = static_cast<std::uint32_t>(params.max_query_tokens),
                       .columns = static_cast<std::uint32_t>(setup_.columns())},
                      stream);
  }

 private:
  static std::vector<std::uint32_t> masks_of(const Setup& setup) {
    const AttentionCase& c = setup.shape();
    std::vector<std::uint32_t> masks;
    for (int row = 0; row < c.batch; ++row) {
      for (int t = 0; t < c.q_len; ++t) {
        masks.push_back((std::uint32_t{2} << (c.causal ? t : c.q_len - 1)) - 1);
      }
    }
    return masks;
  }

  const Setup& setup_;
  DeviceArray mask_, semaphores_, scratch_;
};

/// A line for each peer that takes the case.
void run_peers(Setup& setup, const std::string& suite, Line line, int per_graph, int replays,
               Csv& csv) {
  const auto measure = [&](const std::string& name, bool has_lse, const auto& launch) {
    line.kernel = suite + "_" + name;
    setup.poison();
    launch(0, cudaStream_t{nullptr});
    if (!setup.verify(line, -1, has_lse)) {
      std::fprintf(stderr, "error: outputs of the peer in the next line differ\n");
    }
    line.us = time_graph(per_graph, replays, [&](cudaStream_t stream) {
      for (int i = 0; i < per_graph; ++i) {
        launch(i, stream);
      }
    });
    csv.line(line);
  };
  const peers::FlashInferPacked packed{{.params = setup.over(0),
                                        .lengths = setup.lengths(),
                                        .entries = &setup.entries(),
                                        .columns = setup.columns(),
                                        .tables = setup.tables()}};
  measure("flashinfer", true,
          [&](int table, cudaStream_t stream) { packed.launch(table, stream); });
  if (XqaRun::takes(setup.shape())) {
    const XqaRun xqa{setup};
    measure("xqa", false, [&](int table, cudaStream_t stream) { xqa.launch(table, stream); });
  }
}

}  // namespace
#endif

bool run_case(const AttentionCase& c, const std::string& suite, Pool& pool, Csv& csv) {
  if (!pool.fits(pool_bytes(c))) {
    std::fprintf(stderr, "skipped: batch %d of %d tokens, %d KV heads: %zu bytes do not fit\n",
                 c.batch, c.length, c.kv_heads, pool_bytes(c));
    return true;
  }
  Setup setup{c, pool};
  const std::int64_t bytes = setup.kv_bytes();
  const int per_graph = std::max(setup.tables(), bytes > 2'000'000'000 ? 1 : 2);
  const int replays = bytes > 20'000'000'000 ? 5 : bytes > 500'000'000 ? 9 : 21;
  Line line{.kernel = suite,
            .batch = c.batch,
            .q_heads = c.q_heads,
            .kv_heads = c.kv_heads,
            .head_dim = c.head_dim,
            .page = c.page,
            .layout = std::string{c.hnd ? "HND" : "NHD"} + (c.layers == 1   ? ""
                                                            : c.layer_major ? "/layer-major"
                                                                            : "/page-major"),
            .q_len = c.q_len,
            .kv_len = c.length,
            .mask = c.causal ? "causal" : "none",
            .bytes = static_cast<double>(bytes)};
  const double read = time_paged_read(setup, per_graph, replays);
  bool all_good = true;
  kernels::PathCalls calls;
  for (const AttentionCase::Form& form : c.forms) {
    PathRun run{setup, form};
    line.kernel = form.name.empty() ? suite : suite + "_" + form.name;
    line.ref_us = read;
    run.prepare_all({});
    setup.poison();
    run.launch(0, -1, calls, {});
    const bool good = setup.verify(line);
    all_good = all_good && good;
    line.us = time_graph(per_graph, replays, [&](cudaStream_t stream) {
      for (int i = 0; i < per_graph; ++i) {
        run.launch(i, -1, calls, {stream});
      }
    });
    csv.line(line);
    if (!good) {
      std::fprintf(stderr, "error: outputs of the line above are wrong\n");
    }
    if (suite == "plan") {
      line.kernel = "plan_kernel";
      line.ref_us = 0;
      line.us = time_graph(20, 9, [&](cudaStream_t stream) {
        for (int i = 0; i < 20; ++i) {
          run.plan({stream});
        }
      });
      csv.line(line);
    }
  }
#ifdef KVPOOL_PEER_FLASHINFER
  if (c.has_peer) {
    line.ref_us = read;
    run_peers(setup, suite, line, per_graph, replays, csv);
  }
#endif
  return all_good;
}

}  // namespace kvpool::bench
