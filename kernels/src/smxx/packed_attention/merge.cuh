// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Merging results over parts of the keys, always in the order of the keys.
#pragma once

#include "smxx/packed_attention/output_rows.cuh"
#include "smxx/packed_attention/ptx.cuh"
#include "smxx/packed_attention/schedule.hpp"
#include "smxx/packed_attention/traits.hpp"

#include <cuda_runtime.h>

#include <cstdint>

// The host compiler sees array bounds that depend on a template as conversions of int.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

namespace kvpool::kernels::packed {

/// Threads of the separate merge kernel, and units of outputs of one of its blocks.
inline constexpr int kMergeThreads = 256;
inline constexpr int kMergeUnits = 4;

/// Partial results that blocks of a running grid hand to each other have no flags and no fences: a
/// word of the exchange is 0 until it is written, a result that is +0 goes as -0, and who has read
/// a word makes it 0 again.
__device__ inline float exchangeable(float value) {
  return __float_as_uint(value) == 0U ? -0.0F : value;
}
__device__ inline bool has_arrived(float value) { return __float_as_uint(value) != 0U; }
__device__ inline bool has_arrived(const float4& value) {
  return has_arrived(value.x) && has_arrived(value.y) && has_arrived(value.z) &&
         has_arrived(value.w);
}

/// Where four outputs of a segment's slot are, and the log-sum-exp that goes with them.
template <typename T>
struct SlotPlace {
  float4* values;
  float* lse;

  __device__ SlotPlace(float* slot, int row, int column)
      : values{reinterpret_cast<float4*>(slot + row * T::kDim + column)},
        lse{slot + T::kRows * T::kDim + row * T::kRowUnits + column / T::kUnitColumns} {}
};

/// Writes four normalised outputs of a segment into its slot.
template <typename T>
__device__ inline void write_partial(float* slot, int row, int column, const MergedVector& merged) {
  const float factor = merged.sum == 0.0F ? 0.0F : reciprocal(merged.sum);
  const SlotPlace<T> place{slot, row, column};
  store_exchanged(place.values,
                  float4{exchangeable(merged.out.x * factor), exchangeable(merged.out.y * factor),
                         exchangeable(merged.out.z * factor), exchangeable(merged.out.w * factor)});
  if (column % T::kUnitColumns == 0) {
    store_exchanged(place.lse, exchangeable(merged.lse()));
  }
}

/// Merges what the threads of a block have of units of outputs: `groups` (a power of two) groups of
/// `unit_threads` neighbouring threads have parts of the same unit. The first group has the whole
/// then. All threads of the block call it. `scratch` has 8 floats for each thread.
template <int threads, int unit_threads>
__device__ inline void merge_groups(MergedVector& merged, int group, int groups, float* scratch) {
  constexpr int kWarpGroups = 32 / unit_threads;
  __syncwarp();
#pragma unroll
  for (int distance = 1; distance < kWarpGroups; distance *= 2) {
    if (distance < groups) {
      const MergedVector other = merged.of_lane(distance * unit_threads);
      if ((group & (2 * distance - 1)) == 0) {
        merged.add(other);
      }
    }
  }
  if (groups > kWarpGroups) {
    float* const own = scratch + 8 * threadIdx.x;
    __syncthreads();  // scratch may have been something else
    if ((group & (kWarpGroups - 1)) == 0) {
      *reinterpret_cast<float4*>(own) = merged.out;
      *reinterpret_cast<float2*>(own + 4) = make_float2(merged.maximum, merged.sum);
    }
    __syncthreads();
    if (group == 0) {
      constexpr int kMost = threads / 32;
      float4 out[kMost];
      float2 sums[kMost];
      merged.sum = 0.0F;
      merged.out = float4{0.0F, 0.0F, 0.0F, 0.0F};
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        sums[i] = make_float2(-INFINITY, 0.0F);
        out[i] = merged.out;
        if (i * kWarpGroups < groups) {
          out[i] = *reinterpret_cast<const float4*>(own + 256 * i);
          sums[i] = *reinterpret_cast<const float2*>(own + 256 * i + 4);
        }
        merged.maximum = fmaxf(merged.maximum, sums[i].x);
      }
      const float subtract = fmaxf(merged.maximum, -1e30F);
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        const float weight = power_of_two(sums[i].x - subtract);
        merged.sum = fmaf(weight, sums[i].y, merged.sum);
        merged.add(weight, out[i]);
      }
    }
  }
}

/// Takes in partial results in the order of the keys.
template <int count>
__device__ inline void add_partials(MergedVector& merged, const float (&lse)[count],
                                    const float4 (&values)[count]) {
  float largest = merged.maximum;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    largest = fmaxf(largest, lse[i]);
  }
  merged.raise(largest);
  const float subtract = fmaxf(largest, -1e30F);
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const float weight = power_of_two(lse[i] - subtract);
    merged.sum += weight;
    merged.add(weight, values[i]);
  }
}

/// Merges its share of an item's outputs from the exchange: block `share` of `part.count` takes
/// every part.count-th unit. A unit is 32 columns of one row, and takes 8 threads or several groups
/// of 8, each with every n-th segment. It waits for segments that have not arrived, and clears
/// them.
template <typename T>
__device__ inline void merge_exchanged(float* exchange, const PlanPart& part, int rows,
                                       float* scratch, const OutputRows& out) {
  constexpr int kUnitThreads = T::kUnitColumns / 4;
  constexpr int kPlaces = T::kThreads / kUnitThreads;
  constexpr int kBatch = 5;
  const int thread = static_cast<int>(threadIdx.x);
  const int units = rows * T::kRowUnits;
  const int share = static_cast<int>(blockIdx.x) - part.first_slot / 2;
  if (share >= units) {
    return;
  }
  int groups_log2 = 0;
  while ((kPlaces >> (groups_log2 + 1)) > 0 &&
         share + (kPlaces >> (groups_log2 + 1)) * part.count >= units) {
    ++groups_log2;
  }
  const int groups = 1 << groups_log2;
  const int place = thread / kUnitThreads;
  const int group = place & (groups - 1);
#pragma unroll 1
  for (int first_unit = share; first_unit < units;
       first_unit += (kPlaces >> groups_log2) * part.count) {
    const int unit = first_unit + (place >> groups_log2) * part.count;
    const int row = unit / T::kRowUnits;
    const int column = unit % T::kRowUnits * T::kUnitColumns + thread % kUnitThreads * 4;
    MergedVector merged;
    // Of the slots of a block the first is that of its first item, but for the item's first block.
    float* const slots = exchange + (part.first_slot & ~1) * T::kSlotFloats;
    const int first_values = row * T::kDim + column;
    const int first_lse = T::kRows * T::kDim + row * T::kRowUnits + column / T::kUnitColumns;
    const int odd = (part.first_slot & 1) * T::kSlotFloats;
#pragma unroll 1
    for (int first = group; first < part.count && unit < units; first += kBatch * groups) {
      float* slot[kBatch];
      float lse[kBatch];
      float4 values[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int segment = first + i * groups;
        slot[i] = slots + 2 * segment * T::kSlotFloats + (segment == 0 ? odd : 0);
        lse[i] = segment < part.count ? 0.0F : -INFINITY;
        const float value = segment < part.count ? 0.0F : -0.0F;
        values[i] = float4{value, value, value, value};
      }
      for (bool waits = true; waits;) {
        waits = false;
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          // Outputs are written before their log-sum-exp, and are many more: they are asked for
          // once that is there. Mostly they are there too.
          if (!has_arrived(lse[i])) {
            lse[i] = load_exchanged(slot[i] + first_lse);
            waits = true;
          } else if (!has_arrived(values[i])) {
            values[i] = load_exchanged(reinterpret_cast<const float4*>(slot[i] + first_values));
            waits = true;
          }
        }
      }
      // A log-sum-exp is read by the eight threads of its unit: all of them have it now.
      __syncwarp(((1U << kUnitThreads) - 1U) << (thread % 32 / kUnitThreads * kUnitThreads));
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (first + i * groups < part.count) {
          store_exchanged(reinterpret_cast<float4*>(slot[i] + first_values),
                          float4{0.0F, 0.0F, 0.0F, 0.0F});
          if (thread % kUnitThreads == 0) {
            store_exchanged(slot[i] + first_lse, 0.0F);
          }
        }
      }
      add_partials(merged, lse, values);
    }
    merge_groups<T::kThreads, kUnitThreads>(merged, group, groups, scratch);
    if (group == 0 && unit < units) {
      out.template write<T>(row, column, merged);
    }
  }
}

/// Merges units [begin, begin + kMergeUnits) of an item's outputs from the workspace.
template <typename T>
__device__ inline void merge_workspace(float* workspace, const Segments& segments, int begin,
                                       int units, float* scratch, const OutputRows& out) {
  constexpr int kUnitThreads = T::kUnitColumns / 4;
  constexpr int kGroups = kMergeThreads / kUnitThreads / kMergeUnits;
  constexpr int kBatch = 4;
  const int place = static_cast<int>(threadIdx.x) / kUnitThreads;
  const int group = place % kGroups;
  const int unit = begin + place / kGroups;
  const int row = unit / T::kRowUnits;
  const int column =
      unit % T::kRowUnits * T::kUnitColumns + static_cast<int>(threadIdx.x) % kUnitThreads * 4;
  MergedVector merged;
#pragma unroll 1
  for (int first = group; first < segments.count && unit < units; first += kBatch * kGroups) {
    float lse[kBatch];
    float4 values[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int segment = first + i * kGroups;
      lse[i] = -INFINITY;
      values[i] = float4{0.0F, 0.0F, 0.0F, 0.0F};
      if (segment < segments.count) {
        const SlotPlace<T> place_of{workspace + segments.slot(segment) * T::kSlotFloats, row,
                                    column};
        values[i] = __ldcg(place_of.values);
        lse[i] = __ldcg(place_of.lse);
      }
    }
    add_partials(merged, lse, values);
  }
  merge_groups<kMergeThreads, kUnitThreads>(merged, group, kGroups, scratch);
  if (group == 0 && unit < units) {
    out.template write<T>(row, column, merged);
  }
}

}  // namespace kvpool::kernels::packed

#pragma GCC diagnostic pop
