// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// A form of attention over a case: tables of decode rows, plan, exchange.
#pragma once

#include <kvpool/kernels/attention_path.hpp>
#include <kvpool/kernels/cuda.hpp>

#include "attention_setup.hpp"
#include "measure.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvpool::bench {

class PathRun {
 public:
  PathRun(const Setup& setup, const AttentionCase::Form& form)
      : setup_{setup},
        form_{form},
        sizes_{sizes_of(setup, form)},
        plan_{static_cast<std::size_t>(sizes_.plan.count())},
        exchange_{std::max<std::size_t>(static_cast<std::size_t>(sizes_.counters) * 4, 16)},
        row_entries_{rows() ? row_words() * static_cast<std::size_t>(setup.tables()) * 4 : 0},
        row_lengths_{rows() ? static_cast<std::size_t>(setup.over(0).tokens) * 4 : 0} {
    plan_.set(0xFF);
    exchange_.set(0);
  }

  /// The table of decode rows over one of the page tables.
  void expand(int table, StreamHandle stream) const {
    if (rows()) {
      const kernels::AttentionParams params = setup_.over(table);
      const kernels::PathStep step = step_over(table);
      must(kernels::expand_decode_rows({.entries = params.table.entries,
                                        .lengths = params.table.lengths,
                                        .row_entries = const_cast<std::int32_t*>(step.rows.entries),
                                        .row_lengths = row_lengths_.get<std::int32_t>(),
                                        .row_stride_entries = params.table.row_stride_entries,
                                        .rows = params.table.rows,
                                        .tokens = params.tokens,
                                        .queries = params.max_query_tokens,
                                        .tokens_per_block = params.table.tokens_per_block},
                                       stream),
           "expanding tables");
    }
  }
  void plan(StreamHandle stream) const {
    const kernels::AttentionParams params = with_split(setup_.over(0));
    must(kernels::plan_packed_attention(
             on_path(step_over(0),
                     kernels::packed_plan_params(params, {.instance = form_.instance})),
             stream),
         "planning");
  }
  void prepare_all(StreamHandle stream) const {
    for (int table = 0; table < setup_.tables(); ++table) {
      expand(table, stream);
    }
    plan(stream);
  }
  /// One layer over one of the page tables. @param layer -1: the one in the middle
  void launch(int table, int layer, kernels::PathCalls& calls, StreamHandle stream) const {
    const kernels::AttentionParams params = with_split(setup_.over(table, layer));
    if (form_.instance >= 0) {
      must(kernels::packed_attention(params, {.instance = form_.instance}, stream),
           "packed attention");
    } else {
      must(kernels::attention_on_path(step_over(table), params, calls, stream), "attention");
    }
  }

 private:
  [[nodiscard]] kernels::AttentionParams with_split(kernels::AttentionParams params) const {
    params.split = {.plan = plan_.get(),
                    .plan_bytes = sizes_.plan.count(),
                    .counters = exchange_.get<std::int32_t>(),
                    .counter_count = sizes_.counters,
                    .blocks = sizes_.blocks};
    return params;
  }
  [[nodiscard]] bool rows() const { return form_.path == kernels::AttentionPath::kDecodeRows; }
  /// Entries of the rows of one page table.
  [[nodiscard]] std::size_t row_words() const {
    return static_cast<std::size_t>(setup_.over(0).tokens) *
           static_cast<std::size_t>(setup_.columns());
  }
  [[nodiscard]] kernels::PathStep step_over(int table) const {
    kernels::PathStep step{.path = form_.path, .max_length = setup_.shape().length};
    if (rows()) {
      step.rows = setup_.over(0).table;
      step.rows.entries = row_entries_.get<std::int32_t>(
          row_words() * 4 * static_cast<std::size_t>(table % setup_.tables()));
      step.rows.lengths = row_lengths_.get<std::int32_t>();
      step.rows.rows = setup_.over(0).tokens;
    }
    return step;
  }
  static kernels::PackedSizes sizes_of(const Setup& setup, const AttentionCase::Form& form) {
    const AttentionCase& c = setup.shape();
    const auto sizes = kernels::packed_sizes(
        on_path(kernels::PathStep{.path = form.path, .max_length = c.length},
                kernels::PackedShape{.rows = c.batch,
                                     .max_query_tokens = c.q_len,
                                     .query_heads = c.q_heads,
                                     .kv_heads = c.kv_heads,
                                     .head_dim = c.head_dim,
                                     .multiprocessors = multiprocessors_of_device(),
                                     .instance = form.instance}));
    must(sizes, "sizing");
    return *sizes;
  }

  const Setup& setup_;
  AttentionCase::Form form_;
  kernels::PackedSizes sizes_;
  DeviceArray plan_, exchange_, row_entries_, row_lengths_;
};

}  // namespace kvpool::bench
