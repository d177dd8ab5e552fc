// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Packed attention: every stream of a thread block reads its own steps of keys through its own ring
// in shared memory, without a barrier of the block, and keeps outputs of all query rows in
// registers. At the end of a segment the streams' results are merged in a fixed order.
#pragma once

#include "smxx/packed_attention/launch.hpp"
#include "smxx/packed_attention/merge.cuh"
#include "smxx/packed_attention/output_rows.cuh"
#include "smxx/packed_attention/plan_record.cuh"
#include "smxx/packed_attention/ptx.cuh"
#include "smxx/packed_attention/schedule.hpp"
#include "smxx/packed_attention/segment.cuh"
#include "smxx/packed_attention/step_reader.cuh"
#include "smxx/packed_attention/traits.hpp"
#include "smxx/packed_attention/warp_state.cuh"

#include <cuda_runtime.h>

#include <cstdint>

// The host compiler sees array bounds that depend on a template as conversions of int.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

namespace kvpool::kernels::packed {

/// Reads a value and does nothing with it.
template <typename Value>
__device__ inline void touch(const Value& value) {
  asm volatile("" ::"l"(value));
}

/// Attention of the block's streams over a segment; the results are in shared memory then.
template <typename T>
__device__ inline void attend(const KernelParams& params, const Segment& segment, char* shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int stream = warp / T::kStreamWarps;
  const int part = warp % T::kStreamWarps;
  const auto arrived = [stream] {
    if constexpr (T::kStreamWarps == 1) {
      __syncwarp();
    } else {
      stream_barrier<32 * T::kStreamWarps>(1 + stream);
    }
  };

  StepReader<T> reader{params, segment, shared, stream, part};
  load_queries<T>(params, segment, shared);
  load_limits<T>(params, segment, shared);
  const auto* limits =
      reinterpret_cast<const std::int32_t*>(shared + T::kLimitOffset) + part * T::kWarpTiles * 16;
  const std::uint32_t queries =
      shared_address(shared + T::kQueryOffset) +
      static_cast<std::uint32_t>(part * T::kWarpTiles * 16 * T::kRowBytes);
  // Keys that all rows of the tile see.
  const int last_row = segment.first_row + segment.rows - 1;
  const auto plain_first = static_cast<int>(
      visible_keys(params.mask, segment.length, segment.q_count, params.group.quotient(last_row))
          .first);
  const auto plain_end =
      static_cast<int>(min(visible_keys(params.mask, segment.length, segment.q_count,
                                        params.group.quotient(segment.first_row))
                               .end,
                           std::int64_t{kStep} * segment.step_end));

  WarpState<T> state;
  const std::uint32_t ring = shared_address(shared + stream * T::kRingBytes);
  int fill = 0;
  int take = 0;
  // Reads run ahead of the steps by all stages but one.
#pragma unroll 1
  for (int i = 1 - T::kStages;; ++i) {
    if (i >= 0) {
      wait_copies<T::kStages - 2>();
      if (i == 0) {
        __syncthreads();  // queries and limits are there
        state.load_queries(queries, lane);
      } else {
        arrived();
      }
      if (i >= reader.count()) {
        break;
      }
    }
    reader.read(i + T::kStages - 1, fill);
    fill = fill + 1 == T::kStages ? 0 : fill + 1;
    if (i >= 0) {
      const int first_key = reader.key(i);
      const bool plain = first_key >= plain_first && first_key + T::kKeys <= plain_end;
      state.step(ring + static_cast<std::uint32_t>(take * T::kStageBytes), queries,
                 plain ? nullptr : limits, first_key, params.scale, params.cap, lane);
      take = take + 1 == T::kStages ? 0 : take + 1;
    }
  }
  arrived();  // the results take the place of the ring
  state.store(shared, stream, part * T::kWarpTiles, lane);
  __syncthreads();
}

/// Merges the streams' results, in their order; calls `write(row, column, merged vector)`.
template <typename T, typename Write>
__device__ inline void merge_streams(const char* shared, int rows, const Write& write) {
  const int row = static_cast<int>(threadIdx.x) / T::kRowThreads;
  if (row >= rows) {
    return;
  }
  const auto* maxima = reinterpret_cast<const float*>(shared + T::kMaximumOffset) + row;
  const auto* sums = reinterpret_cast<const float*>(shared + T::kSumOffset) + row;
  float maximum = -INFINITY;
  float weights[T::kStreams];
#pragma unroll
  for (int stream = 0; stream < T::kStreams; ++stream) {
    weights[stream] = maxima[stream * T::kRows];
    maximum = fmaxf(maximum, weights[stream]);
  }
  const float subtract = fmaxf(maximum, -1e30F);
  float sum = 0.0F;
#pragma unroll
  for (int stream = 0; stream < T::kStreams; ++stream) {
    weights[stream] = power_of_two(weights[stream] - subtract);
    sum = fmaf(weights[stream], sums[stream * T::kRows], sum);
  }
#pragma unroll
  for (int i = 0; i < T::kDim / 4 / T::kRowThreads; ++i) {
    const int column = (i * T::kRowThreads + static_cast<int>(threadIdx.x) % T::kRowThreads) * 4;
    MergedVector merged{maximum, sum};
#pragma unroll
    for (int stream = 0; stream < T::kStreams; ++stream) {
      merged.add(weights[stream],
                 *reinterpret_cast<const float4*>(shared + stream * T::kRingBytes +
                                                  4 * (row * T::kResultStride + column)));
    }
    write(row, column, merged);
  }
}

/// An item of which a block has computed a part, waiting for the others.
struct ItemPart {
  PlanPart part;
  std::int32_t kv_head;
  std::int32_t first_row;
  std::int32_t rows;
  std::int32_t q_first;
};

/// Blocks take their parts of the line, segment by segment.
template <typename T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocksPerMultiprocessor)
    kernel(const __grid_constant__ KernelParams params) {
  extern __shared__ __align__(1024) char shared[];
  // The parameters' lines of the constant bank are fetched while other kernels still run.
  touch(params.plan);
  touch(params.k_head_stride);
  touch(params.q);
  touch(params.workspace);
  touch(params.lse_head_stride);
  wait_for_predecessors();
  let_successors_start();
  const PlanLayout plan = layout_of(params.plan, params.blocks);
  PlanBlock at = load_record(plan.blocks + blockIdx.x);
  const std::int32_t split_steps = at.split_steps;
  const std::int32_t whole_cost = at.cost;
  int waiting = 0;

  while (at.cost > 0) {
    const std::int32_t steps = steps_of(at.length, at.first_step);
    const auto cost = static_cast<std::int32_t>(item_cost(steps, split_steps, start_cost(T::kDim)));
    const std::int32_t taken = split_steps > 0 ? 1 : min(cost - at.offset, at.cost);
    Segment segment;
    segment.row = at.row;
    segment.kv_head = params.m_tiles.quotient(at.item);
    segment.first_row = params.m_tiles.rest(at.item, segment.kv_head) * T::kRows;
    segment.rows = min(T::kRows, at.q_count * params.group.divisor() - segment.first_row);
    segment.q_first = at.q_first;
    segment.q_count = at.q_count;
    segment.length = at.length;
    segment.first_key =
        static_cast<std::int32_t>(visible_keys(params.mask, at.length, at.q_count, 0).first);
    if (split_steps > 0) {
      segment.step_begin = at.offset * split_steps;
      segment.step_end = min(segment.step_begin + split_steps, steps);
    } else {
      segment.step_begin = max(at.offset - start_cost(T::kDim), 0);
      segment.step_end = max(at.offset + taken - start_cost(T::kDim), 0);
    }
    const bool has_keys = segment.step_begin < segment.step_end;
    const bool whole = segment.step_begin == 0 && segment.step_end >= steps;
    segment.step_begin += at.first_step;
    segment.step_end += at.first_step;

    // The row of the next segment, if it is another: asked for before the work.
    const bool next_item = at.offset + taken >= cost;
    const bool next_row = next_item && at.item + 1 == params.items_per_row;
    PlanRow row{};
    if (next_row && at.cost > taken) {
      row = load_record(plan.rows + at.row + 1);
    }

    if (segment.rows > 0 && (has_keys || steps == 0)) {
      const OutputRows out{params, segment.q_first, segment.kv_head, segment.first_row};
      if (steps == 0) {
        for (int i = static_cast<int>(threadIdx.x); i < segment.rows * T::kDim / 4;
             i += T::kThreads) {
          out.template write<T>(i / (T::kDim / 4), i % (T::kDim / 4) * 4, MergedVector{});
        }
      } else {
        attend<T>(params, segment, shared);
        const std::int32_t consumed = whole_cost - at.cost;
        // With a fixed split the place on the line; else the block's first or last segment.
        const std::int64_t place = split_steps > 0
                                       ? at.begin + consumed
                                       : 2 * std::int64_t{blockIdx.x} + (consumed == 0 ? 0 : 1);
        float* const slot = (params.exchange != nullptr ? params.exchange : params.workspace) +
                            place * T::kSlotFloats;
        merge_streams<T>(shared, segment.rows,
                         [&](int merged_row, int column, const MergedVector& merged) {
                           if (whole) {
                             out.template write<T>(merged_row, column, merged);
                           } else {
                             write_partial<T>(slot, merged_row, column, merged);
                           }
                         });
        if (!whole && params.exchange != nullptr) {
          if (threadIdx.x == 0) {
            reinterpret_cast<ItemPart*>(shared + T::kPartOffset)[waiting] = {
                consumed == 0 ? at.lead : at.tail, segment.kv_head, segment.first_row, segment.rows,
                segment.q_first};
          }
          ++waiting;
        }
        __syncthreads();  // the next segment overwrites shared memory
      }
    }

    at.cost -= taken;
    if (next_row) {
      at.row += 1;
      at.item = 0;
      at.offset = 0;
      at.first_step = row.first_step;
      at.length = row.length;
      at.q_first = row.q_first;
      at.q_count = row.q_count;
    } else if (next_item) {
      at.item += 1;
      at.offset = 0;
    } else {
      at.offset += taken;
    }
  }
  // The first and the last item may be shared with other blocks. All blocks of the grid run at the
  // same time, so each waits for the others' results and merges its share of the outputs.
#pragma unroll 1
  for (int i = 0; i < waiting; ++i) {
    const ItemPart part = reinterpret_cast<const ItemPart*>(shared + T::kPartOffset)[i];
    merge_exchanged<T>(params.exchange, part.part, part.rows, reinterpret_cast<float*>(shared),
                       OutputRows{params, part.q_first, part.kv_head, part.first_row});
  }
}

}  // namespace kvpool::kernels::packed

#pragma GCC diagnostic pop
