// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "step_suite.hpp"

#include <kvpool/kernels/cuda.hpp>

#include "attention_setup.hpp"
#include "device_helpers.hpp"
#include "path_run.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace kvpool::bench {
namespace {

/// What a step writes before it attends: table entries, lengths, and new tokens of each layer.
class StepInputs {
 public:
  explicit StepInputs(const Setup& setup)
      : setup_{setup},
        source_{2 * row_bytes() * static_cast<std::size_t>(setup.over(0).tokens)},
        new_lengths_{setup.lengths()},
        slots_{slots_of(setup)},
        deltas_{deltas_of(setup)} {
    fill_bf16(source_.get(), source_.size(), 23, nullptr);
  }

  /// One new page and the length of every sequence. They are what the tables hold already, so that
  /// a graph can be replayed.
  void update_tables(int table, StreamHandle stream) const {
    const kernels::AttentionParams params = setup_.over(table);
    const std::int32_t rows = params.table.rows;
    must(kernels::apply_table_deltas(
             {.entries = const_cast<std::int32_t*>(params.table.entries),
              .lengths = const_cast<std::int32_t*>(params.table.lengths),
              .deltas = deltas_.get<PageTableDelta>() +
                        static_cast<std::int64_t>(table % setup_.tables()) * rows,
              .new_lengths = new_lengths_.get<std::int32_t>(),
              .row_stride_entries = params.table.row_stride_entries,
              .delta_capacity = rows,
              .rows = rows},
             stream),
         "table deltas");
  }
  /// The block's tokens of one layer, at the end of every sequence.
  void append(int table, int layer, StreamHandle stream) const {
    const kernels::AttentionParams params = setup_.over(table, layer);
    const AttentionCase& c = setup_.shape();
    kernels::AppendParams append;
    append.k = source_.get();
    append.v = source_.get(row_bytes() * static_cast<std::size_t>(params.tokens));
    append.slot_mapping = slots_.get<std::int64_t>() +
                          static_cast<std::int64_t>(table % setup_.tables()) * params.tokens;
    append.k_cache = params.k;
    append.v_cache = params.v;
    append.k_token_stride = append.v_token_stride = std::int64_t{c.kv_heads} * c.head_dim;
    append.k_head_stride = append.v_head_stride = c.head_dim;
    append.tokens = params.tokens;
    append.kv_heads = c.kv_heads;
    append.tokens_per_block = c.page;
    must(kernels::append(append, stream), "append");
  }

 private:
  [[nodiscard]] std::size_t row_bytes() const {
    const AttentionCase& c = setup_.shape();
    return static_cast<std::size_t>(c.kv_heads) * static_cast<std::size_t>(c.head_dim) * 2;
  }
  static std::vector<std::int64_t> slots_of(const Setup& setup) {
    const AttentionCase& c = setup.shape();
    std::vector<std::int64_t> slots;
    for (int table = 0; table < setup.tables(); ++table) {
      for (int row = 0; row < c.batch; ++row) {
        const std::int32_t* const entries =
            setup.entries().data() +
            (static_cast<std::int64_t>(table) * c.batch + row) * setup.columns();
        const std::int32_t length = setup.lengths()[static_cast<std::size_t>(row)];
        for (std::int32_t token = length - c.q_len; token < length; ++token) {
          slots.push_back(std::int64_t{entries[token / c.page]} * c.page + token % c.page);
        }
      }
    }
    return slots;
  }
  static std::vector<PageTableDelta> deltas_of(const Setup& setup) {
    const AttentionCase& c = setup.shape();
    std::vector<PageTableDelta> deltas;
    for (int table = 0; table < setup.tables(); ++table) {
      for (int row = 0; row < c.batch; ++row) {
        const std::int64_t first =
            (static_cast<std::int64_t>(table) * c.batch + row) * setup.columns();
        const std::int32_t column = (setup.lengths()[static_cast<std::size_t>(row)] - 1) / c.page;
        deltas.push_back({.row = row,
                          .column = column,
                          .entry = setup.entries()[static_cast<std::size_t>(first + column)]});
      }
    }
    return deltas;
  }

  const Setup& setup_;
  DeviceArray source_, new_lengths_, slots_, deltas_;
};

}  // namespace

bool run_step(const AttentionCase& c, Pool& pool, Csv& csv) {
  if (!pool.fits(pool_bytes(c))) {
    std::fprintf(stderr, "skipped: a step of batch %d, %d tokens: %zu bytes do not fit\n", c.batch,
                 c.length, pool_bytes(c));
    return true;
  }
  Setup setup{c, pool};
  const StepInputs inputs{setup};
  const int per_graph = setup.tables();
  const int replays = setup.kv_bytes() > 500'000'000 ? 9 : 21;
  Line line{.kernel = "step",
            .batch = c.batch,
            .q_heads = c.q_heads,
            .kv_heads = c.kv_heads,
            .head_dim = c.head_dim,
            .page = c.page,
            .layout = "HND/layer-major",
            .q_len = c.q_len,
            .kv_len = c.length,
            .mask = "none",
            .bytes = static_cast<double>(setup.kv_bytes()) * c.layers};
  const double read = c.layers * time_paged_read(setup, per_graph, replays);
  bool all_good = true;
  for (const AttentionCase::Form& form : c.forms) {
    const PathRun run{setup, form};
    kernels::PathCalls calls;
    line.kernel = "step_" + form.name;
    line.ref_us = read;
    const auto layer = [&](int table, int index, StreamHandle stream) {
      inputs.append(table, index, stream);
      run.launch(table, index, calls, stream);
    };
    const auto whole = [&](int table, StreamHandle stream) {
      inputs.update_tables(table, stream);
      run.expand(table, stream);
      run.plan(stream);
      for (int i = 0; i < c.layers; ++i) {
        layer(table, i, stream);
      }
    };
    run.prepare_all({});
    setup.poison();
    whole(0, {});
    const bool good = setup.verify(line, c.layers - 1);
    all_good = all_good && good;
    const auto timed = [&](const auto& body) {
      return time_graph(per_graph, replays, [&](cudaStream_t stream) {
        for (int i = 0; i < per_graph; ++i) {
          body(i, StreamHandle{stream});
        }
      });
    };
    line.op_us = timed([&](int i, StreamHandle stream) { run.launch(i, 0, calls, stream); });
    line.layer_us = timed([&](int i, StreamHandle stream) { layer(i, 0, stream); });
    line.step_us = timed([&](int i, StreamHandle stream) { whole(i, stream); });
    line.us = line.step_us;
    csv.line(line);
    if (!good) {
      std::fprintf(stderr, "error: outputs of the line above are wrong\n");
    }
  }
  return all_good;
}

}  // namespace kvpool::bench
