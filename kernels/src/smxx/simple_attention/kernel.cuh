// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/attention_params.hpp>

#include "smxx/device/elements.cuh"
#include "smxx/device/launch.cuh"
#include "smxx/simple_attention/launch.hpp"
#include "smxx/simple_attention/traits.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace kvpool::kernels::simple_attention {

/// Scores are kept in base 2, so that exp2f needs no factor.
inline constexpr float kLog2E = 1.4426950408889634F;
inline constexpr float kLn2 = 0.6931471805599453F;

struct Shared {
  float q[kMaxDim];
  float scores[kTile];
  std::int64_t k_offsets[kTile];
  std::int64_t v_offsets[kTile];
  /// Outputs of the groups of threads that share an output row: at most one vector of 8 a thread.
  float partial[kThreads * 8];
};

/// The row that a query token belongs to; `table.rows` if it belongs to none.
__device__ inline std::int64_t row_of(const AttentionParams& params, std::int64_t token) {
  const std::int64_t rows = params.table.rows;
  if (params.q_indptr == nullptr) {
    return params.max_query_tokens > 0 ? min(token / params.max_query_tokens, rows) : rows;
  }
  // The first row whose end lies behind the token. Rows without tokens end where they begin.
  std::int64_t low = 0;
  std::int64_t high = rows;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (params.q_indptr[middle + 1] > token) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Keys that a query token sees. None if the token belongs to no row.
__device__ inline KeyRange keys_of(const AttentionParams& params, std::int64_t row,
                                   std::int64_t token) {
  if (row >= params.table.rows) {
    return {};
  }
  const std::int64_t begin = first_query(params, row);
  const std::int64_t q_len = first_query(params, row + 1) - begin;
  return visible_keys(params, params.table.lengths[row], q_len, token - begin);
}

/// Fills in where the rows of `count` keys from `first` on lie. No other page is looked up.
__device__ inline void find_rows(const AttentionParams& params, Shared& shared, std::int64_t row,
                                 std::int64_t head, std::int64_t first, int count) {
  const int thread = static_cast<int>(threadIdx.x);
  const int i = thread % kTile;
  if (thread >= 2 * kTile || i >= count) {
    return;
  }
  const std::int64_t key = first + i;
  const std::int64_t block = key / params.table.tokens_per_block;
  const std::int64_t slot = key % params.table.tokens_per_block;
  const std::int64_t entry = params.table.entries[row * params.table.row_stride_entries + block];
  if (thread < kTile) {
    shared.k_offsets[i] = row_offset(params.k, entry, head, slot);
  } else {
    shared.v_offsets[i] = row_offset(params.v, entry, head, slot);
  }
}

/// Scores of a tile in base 2: kLanesPerKey neighbouring lanes for each key.
template <ElementType type>
__device__ inline void score_tile(const AttentionParams& params, Shared& shared, int count) {
  constexpr int kPer = Elements<type>::kPerVector;
  constexpr int kKeys = kThreads / kLanesPerKey;
  const int lane = static_cast<int>(threadIdx.x) % kLanesPerKey;
  const int group = static_cast<int>(threadIdx.x) / kLanesPerKey;
  const int vectors = params.k.dim / kPer;
  for (int base = 0; base < count; base += kKeys) {
    const int key = base + group;
    float sum = 0.0F;
    if (key < count) {
      const auto* data = reinterpret_cast<const uint4*>(static_cast<const char*>(params.k.base) +
                                                        shared.k_offsets[key]);
#pragma unroll 4
      for (int i = lane; i < vectors; i += kLanesPerKey) {
        float values[kPer];
        Elements<type>::unpack(data[i], values);
#pragma unroll
        for (int e = 0; e < kPer; ++e) {
          sum = fmaf(values[e], shared.q[i * kPer + e], sum);
        }
      }
    }
    // All lanes of the warp take part, also those without a key.
#pragma unroll
    for (int distance = kLanesPerKey / 2; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xFFFF'FFFFU, sum, distance);
    }
    if (key < count && lane == 0) {
      float score = sum * params.scale * params.k_scale;
      if (params.softcap > 0.0F) {
        score = params.softcap * tanhf(score / params.softcap);
      }
      shared.scores[key] = score * kLog2E;
    }
  }
}

/// Maximum and sum of the weights so far, the same in every thread.
struct Softmax {
  float maximum = -INFINITY;
  float sum = 0.0F;
};

/// Weight of a score, in base 2. 0 while all scores are -infinity.
__device__ inline float weight(float score, float maximum) {
  return maximum == -INFINITY && score == -INFINITY ? 0.0F : exp2f(score - maximum);
}

/// Takes a tile of scores in; what was summed up before has to be multiplied by the result. Each
/// warp does it for itself, in the same order.
__device__ inline float update(Softmax& softmax, const Shared& shared, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float a = lane < count ? shared.scores[lane] : -INFINITY;
  const float b = lane + 32 < count ? shared.scores[lane + 32] : -INFINITY;
  float maximum = fmaxf(a, b);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    maximum = fmaxf(maximum, __shfl_xor_sync(0xFFFF'FFFFU, maximum, distance));
  }
  maximum = fmaxf(maximum, softmax.maximum);
  float sum = weight(a, maximum) + weight(b, maximum);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xFFFF'FFFFU, sum, distance);
  }
  const float rescale = weight(softmax.maximum, maximum);
  softmax.sum = softmax.sum * rescale + sum;
  softmax.maximum = maximum;
  return rescale;
}

/// One block for each (query token, query head).
template <ElementType type>
__global__ void __launch_bounds__(kThreads) kernel(const __grid_constant__ AttentionParams params) {
  constexpr int kPer = Elements<type>::kPerVector;
  __shared__ Shared shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int v_vectors = params.v.dim / kPer;
  // Thread t holds vector t % v_vectors of the output, summed over the keys of its group.
  const int groups = kThreads / v_vectors;
  const int group = thread / v_vectors;
  const int vector = thread % v_vectors;
  const std::int64_t group_size = params.query_heads / params.kv_heads;

  const std::int64_t items = static_cast<std::int64_t>(params.tokens) * params.query_heads;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const std::int64_t token = item / params.query_heads;
    const std::int64_t head = item % params.query_heads;
    const std::int64_t row = row_of(params, token);
    const KeyRange keys = keys_of(params, row, token);

    const auto* q = static_cast<const typename Elements<type>::Type*>(params.q) +
                    token * params.q_token_stride + head * params.q_head_stride;
    for (int i = thread; i < params.k.dim; i += kThreads) {
      shared.q[i] = Elements<type>::widen(q[i]);
    }

    Softmax softmax;
    float out[kPer] = {};
    for (std::int64_t first = keys.first; first < keys.end; first += kTile) {
      const int count = static_cast<int>(min(std::int64_t{kTile}, keys.end - first));
      find_rows(params, shared, row, head / group_size, first, count);
      __syncthreads();
      score_tile<type>(params, shared, count);
      __syncthreads();
      const float rescale = update(softmax, shared, count);
      if (group < groups) {
#pragma unroll
        for (int e = 0; e < kPer; ++e) {
          out[e] *= rescale;
        }
#pragma unroll 4
        for (int key = group; key < count; key += groups) {
          const auto* data = reinterpret_cast<const uint4*>(
              static_cast<const char*>(params.v.base) + shared.v_offsets[key]);
          float values[kPer];
          Elements<type>::unpack(data[vector], values);
          const float p = weight(shared.scores[key], softmax.maximum);
#pragma unroll
          for (int e = 0; e < kPer; ++e) {
            out[e] = fmaf(p, values[e], out[e]);
          }
        }
      }
      __syncthreads();  // the next tile overwrites scores and offsets
    }

    if (group < groups) {
#pragma unroll
      for (int e = 0; e < kPer; ++e) {
        shared.partial[group * params.v.dim + vector * kPer + e] = out[e];
      }
    }
    __syncthreads();
    float factor = 0.0F;
    if (softmax.sum != 0.0F) {  // also for NaN
      float denominator = softmax.sum;
      if (params.sinks != nullptr) {
        // The sum is at least 1: a sink so large that this is infinite leaves nothing of the
        // output.
        denominator += exp2f(params.sinks[head] * kLog2E - softmax.maximum);
      }
      factor = params.v_scale / denominator;
    }
    auto* row_out = static_cast<typename Elements<type>::Type*>(params.out) +
                    token * params.out_token_stride + head * params.out_head_stride;
    for (int i = thread; i < params.v.dim; i += kThreads) {
      float sum = 0.0F;
      for (int g = 0; g < groups; ++g) {
        sum += shared.partial[g * params.v.dim + i];
      }
      row_out[i] = Elements<type>::narrow(sum * factor);
    }
    if (thread == 0 && params.lse != nullptr) {
      const float lse = softmax.sum == 0.0F ? -INFINITY : softmax.maximum + log2f(softmax.sum);
      params.lse[token * params.lse_token_stride + head * params.lse_head_stride] =
          params.lse_base == LogBase::kNatural ? lse * kLn2 : lse;
    }
    __syncthreads();  // the next item overwrites q and the partial outputs
  }
}

template <ElementType type>
cudaError_t launch_for(const AttentionParams& params, cudaStream_t stream) {
  const std::int64_t items = static_cast<std::int64_t>(params.tokens) * params.query_heads;
  return launch_items(kernel<type>, params, items, 1, kThreads, stream);
}

}  // namespace kvpool::kernels::simple_attention
