// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/packed_attention.hpp>

#include "smxx/packed_attention/schedule.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace kvpool::kernels::packed {

inline constexpr int kPlanThreads = 1024;
/// Rows whose places on the line stay in shared memory; those of larger batches are read back.
inline constexpr int kPlanSharedRows = 4096;

/// Sum over the block's threads before this one; `total` is that of all.
__device__ inline std::int64_t exclusive_sum(std::int64_t value, std::int64_t& total,
                                             std::int64_t* warps) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  std::int64_t sum = value;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const std::int64_t other = __shfl_up_sync(0xFFFF'FFFFU, sum, distance);
    sum += lane >= distance ? other : 0;
  }
  if (lane == 31) {
    warps[warp] = sum;
  }
  __syncthreads();
  std::int64_t all = warps[lane];
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const std::int64_t other = __shfl_up_sync(0xFFFF'FFFFU, all, distance);
    all += lane >= distance ? other : 0;
  }
  total = __shfl_sync(0xFFFF'FFFFU, all, 31);
  const std::int64_t before = __shfl_sync(0xFFFF'FFFFU, all, (warp + 31) % 32);
  __syncthreads();  // the next call overwrites
  return sum - value + (warp > 0 ? before : 0);
}

/// The plan of a batch, by one thread block.
__global__ void __launch_bounds__(kPlanThreads)
    plan_kernel(const __grid_constant__ PackedPlanParams params,
                const __grid_constant__ PlanShape shape) {
  __shared__ std::int64_t first_row;
  __shared__ std::int64_t warps[kPlanThreads / 32];
  __shared__ std::int64_t bases[kPlanSharedRows];
  const int thread = static_cast<int>(threadIdx.x);
  const PlanLayout plan = layout_of(params.plan, params.blocks);

  std::int64_t base = 0;
  for (std::int64_t first = 0; first < params.rows; first += kPlanThreads) {
    const std::int64_t row = first + thread;
    PlanRow record;
    std::int64_t cost = 0;
    if (row < params.rows) {
      record = plan_row(params, row, params.lengths[row]);
      cost = shape.items_per_row *
             item_cost(steps_of(record.length, record.first_step), shape.split_steps, shape.start);
      if (row == 0) {
        first_row = cost;
      }
    }
    std::int64_t chunk = 0;
    record.base = base + exclusive_sum(cost, chunk, warps);
    if (row < params.rows) {
      plan.rows[row] = record;
      if (row < kPlanSharedRows) {
        bases[row] = record.base;
      }
    }
    base += chunk;
  }
  __syncthreads();

  const PlanHeader header = plan_header(base, params.rows, first_row, shape);
  if (thread == 0) {
    *plan.header = header;
  }
  for (std::int32_t b = thread; b < params.blocks; b += kPlanThreads) {
    PlanBlock record;
    if (b < header.blocks && base > 0) {
      // The last row that begins at or before a position.
      const auto row_at = [&](std::int64_t at) {
        std::int64_t low = 0;
        std::int64_t high = params.rows - 1;
        while (low < high) {
          const std::int64_t middle = (low + high + 1) / 2;
          if ((middle < kPlanSharedRows ? bases[middle] : plan.rows[middle].base) <= at) {
            low = middle;
          } else {
            high = middle - 1;
          }
        }
        return low;
      };
      const std::int64_t first = row_at(cost_of(b, header));
      const std::int64_t last = row_at(cost_of(b + 1, header) - 1);
      record = plan_block(b, header, first, plan.rows[first], plan.rows[last]);
    }
    plan.blocks[b] = record;
  }
}

}  // namespace kvpool::kernels::packed
