// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "smxx/packed_attention/launch.hpp"
#include "smxx/packed_attention/merge.cuh"
#include "smxx/packed_attention/output_rows.cuh"
#include "smxx/packed_attention/plan_record.cuh"
#include "smxx/packed_attention/ptx.cuh"
#include "smxx/packed_attention/schedule.hpp"
#include "smxx/packed_attention/traits.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace kvpool::kernels::packed {

/// Merges items whose segments were not merged by their blocks: one thread block for some units of
/// the outputs of an item.
template <typename T>
__global__ void __launch_bounds__(kMergeThreads)
    merge_kernel(const __grid_constant__ KernelParams params) {
  __shared__ float scratch[kMergeThreads * 8];
  constexpr int kParts = T::kRows * T::kRowUnits / kMergeUnits;
  let_successors_start();
  wait_for_predecessors();
  const PlanLayout plan = layout_of(params.plan, params.blocks);
  const int part = static_cast<int>(blockIdx.x) % kParts;
  const int item = static_cast<int>(blockIdx.x) / kParts;
  const int table_row = item / params.items_per_row;
  const int item_of_row = item % params.items_per_row;
  const PlanRow row = load_record(plan.rows + table_row);
  const PlanHeader header = load_record(plan.header);
  const std::int32_t steps = steps_of(row.length, row.first_step);
  const Segments segments = segments_of(
      row.base + item_of_row * item_cost(steps, header.split_steps, header.start), steps, header);
  const int kv_head = params.m_tiles.quotient(item_of_row);
  const int first_row = params.m_tiles.rest(item_of_row, kv_head) * T::kRows;
  const int rows = min(T::kRows, row.q_count * params.group.divisor() - first_row);
  const int begin = part * kMergeUnits;
  if (segments.count > 1 && begin < rows * T::kRowUnits) {
    merge_workspace<T>(params.workspace, segments, begin, rows * T::kRowUnits, scratch,
                       OutputRows{params, row.q_first, kv_head, first_row});
  }
}

}  // namespace kvpool::kernels::packed
