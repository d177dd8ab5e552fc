// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of one warp.
#pragma once

#include "smxx/packed_attention/ptx.cuh"
#include "smxx/packed_attention/traits.hpp"

#include <cuda_runtime.h>

#include <cstdint>

// The host compiler sees array bounds that depend on a template as conversions of int.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

namespace kvpool::kernels::packed {

/// A row's outputs are multiplied again only when its maximum has grown by more than this power of
/// two: until then weights stay below 2^8, which no format loses.
inline constexpr float kMaximumSlack = 8.0F;

/// Scores, weights and outputs of one warp: its row tiles over the keys of its stream.
template <typename T>
struct WarpState {
  static constexpr int kTiles = T::kWarpTiles;
  static constexpr int kInner = T::kDim / 16;
  static constexpr int kColumns = T::kDim / 8;

  float out[kTiles][kColumns][4] = {};
  float maximum[kTiles][2];
  float sum[kTiles][2] = {};
  std::uint32_t q[T::kQueriesInRegisters ? kTiles : 1][T::kQueriesInRegisters ? kInner : 1][4];

  __device__ WarpState() {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      maximum[tile][0] = -INFINITY;
      maximum[tile][1] = -INFINITY;
    }
  }

  /// Address of this lane's part of a fragment of queries: row tile, inner chunk pair.
  static __device__ std::uint32_t query_address(std::uint32_t queries, int tile, int inner,
                                                int lane) {
    const int row = tile * 16 + lane % 16;
    const int chunk = 2 * inner + lane / 16;
    return queries + static_cast<std::uint32_t>(row * T::kRowBytes + 16 * (chunk ^ (row & 7)));
  }

  __device__ void load_queries(std::uint32_t queries, int lane) {
    if constexpr (T::kQueriesInRegisters) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int inner = 0; inner < kInner; ++inner) {
          load_matrices(q[tile][inner], query_address(queries, tile, inner, lane));
        }
      }
    }
  }

  /// Takes in the keys of one turn, which lie in shared memory.
  /// @param limits keys that each row sees, if they differ among these, else null
  __device__ void step(std::uint32_t stage, std::uint32_t queries, const std::int32_t* limits,
                       int first_key, float factor, float cap, int lane) {
    Scores scores = {};
    multiply_keys(stage, queries, scores, lane);
    if (cap > 0.0F) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4 * kScoreColumns; ++i) {
          // cap * tanh(x), of which tanh(x) = 1 - 2 / (e^2x + 1)
          float& score = scores[tile][i / 4][i % 4];
          score = cap - 2.0F * cap * reciprocal(power_of_two(score * factor) + 1.0F);
        }
      }
      factor = 1.0F;
    } else if (factor <= 0.0F) {
      // The largest score is that of the largest product only if the factor is above 0.
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4 * kScoreColumns; ++i) {
          float& score = scores[tile][i / 4][i % 4];
          score = factor == 0.0F ? 0.0F : -score;
        }
      }
      factor = factor == 0.0F ? 1.0F : -factor;
    }
    if (limits != nullptr) {
      mask(scores, limits, first_key, lane);
    }
    bool grew = false;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        grew =
            grew || largest_of(scores[tile], half) * factor > maximum[tile][half] + kMaximumSlack;
      }
    }
    if (__any_sync(0xFFFF'FFFFU, grew)) {
      rescale(scores, factor);
    }

    std::uint32_t weights[kTiles][T::kSteps][4];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // Finite, so that a row without keys has weights of 0.
        const float subtract = fmaxf(maximum[tile][half], -1e30F);
#pragma unroll
        for (int step = 0; step < T::kSteps; ++step) {
          float p[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            p[i] = power_of_two(
                fmaf(scores[tile][2 * step + i / 2][2 * half + i % 2], factor, -subtract));
          }
          sum[tile][half] += (p[0] + p[1]) + (p[2] + p[3]);
          weights[tile][step][half] = narrow_pair<T::kType>(p[0], p[1]);
          weights[tile][step][2 + half] = narrow_pair<T::kType>(p[2], p[3]);
        }
      }
    }
    multiply_values(stage, weights, lane);
  }

 private:
  /// Columns of 8 keys in a turn.
  static constexpr int kScoreColumns = 2 * T::kSteps;
  using Scores = float[kTiles][kScoreColumns][4];

  __device__ void multiply_keys(std::uint32_t stage, std::uint32_t queries, Scores& scores,
                                int lane) const {
    const int token = (lane / 16) * 8 + lane % 8;
    const std::uint32_t row = stage + static_cast<std::uint32_t>(token * T::kRowBytes);
    const int swizzle = (lane / 8 & 1) ^ (lane & 7);
#pragma unroll
    for (int inner = 0; inner < kInner; ++inner) {
      std::uint32_t k[T::kSteps][4];
#pragma unroll
      for (int step = 0; step < T::kSteps; ++step) {
        load_matrices(k[step], row + static_cast<std::uint32_t>(step * 2 * T::kOperandBytes +
                                                                16 * (2 * inner ^ swizzle)));
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        std::uint32_t a[4];
        if constexpr (!T::kQueriesInRegisters) {
          load_matrices(a, query_address(queries, tile, inner, lane));
        }
#pragma unroll
        for (int step = 0; step < T::kSteps; ++step) {
          if constexpr (T::kQueriesInRegisters) {
            multiply_add<T::kType>(scores[tile][2 * step], q[tile][inner], k[step][0], k[step][1]);
            multiply_add<T::kType>(scores[tile][2 * step + 1], q[tile][inner], k[step][2],
                                   k[step][3]);
          } else {
            multiply_add<T::kType>(scores[tile][2 * step], a, k[step][0], k[step][1]);
            multiply_add<T::kType>(scores[tile][2 * step + 1], a, k[step][2], k[step][3]);
          }
        }
      }
    }
  }

  __device__ void multiply_values(std::uint32_t stage,
                                  const std::uint32_t (&weights)[kTiles][T::kSteps][4], int lane) {
    const int token = lane % 16;
    const std::uint32_t row =
        stage + static_cast<std::uint32_t>(T::kOperandBytes + token * T::kRowBytes);
    const int swizzle = lane / 16 ^ (lane & 7);
#pragma unroll
    for (int step = 0; step < T::kSteps; ++step) {
#pragma unroll
      for (int columns = 0; columns < kColumns / 2; ++columns) {
        std::uint32_t v[4];
        load_matrices_transposed(v, row + static_cast<std::uint32_t>(step * 2 * T::kOperandBytes +
                                                                     16 * (2 * columns ^ swizzle)));
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          multiply_add<T::kType>(out[tile][2 * columns], weights[tile][step], v[0], v[1]);
          multiply_add<T::kType>(out[tile][2 * columns + 1], weights[tile][step], v[2], v[3]);
        }
      }
    }
  }

  __device__ void mask(Scores& scores, const std::int32_t* limits, int first_key, int lane) const {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = tile * 16 + half * 8 + lane / 4;
        const int key = first_key + lane % 4 * 2;
        const int first = limits[row] - key;
        const int end = limits[T::kRows + row] - key;
#pragma unroll
        for (int i = 0; i < 2 * kScoreColumns; ++i) {
          const int at = i / 2 * 8 + i % 2;
          if (at < first || at >= end) {
            scores[tile][i / 2][2 * half + i % 2] = -INFINITY;
          }
        }
      }
    }
  }

  /// Of one row, as far as this lane has it.
  static __device__ float largest_of(const float (&scores)[kScoreColumns][4], int half) {
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kScoreColumns; ++i) {
      largest = fmaxf(largest, fmaxf(scores[i][2 * half], scores[i][2 * half + 1]));
    }
    return largest;
  }

 public:
  /// Raises the maxima that have grown too far. Each row decides for itself: its result does not
  /// depend on the others.
  __device__ void rescale(const Scores& scores, float scale) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      float factor[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float largest = largest_of(scores[tile], half);
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFF'FFFFU, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFF'FFFFU, largest, 2));
        largest *= scale;
        const float before = maximum[tile][half];
        const bool grew = largest > before + kMaximumSlack;
        factor[half] = grew ? power_of_two(before - largest) : 1.0F;
        maximum[tile][half] = grew ? largest : before;
        sum[tile][half] *= factor[half];
      }
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          out[tile][column][i] *= factor[i / 2];
        }
      }
    }
  }

  /// Writes outputs, maxima and sums to shared memory.
  __device__ void store(char* shared, int stream, int first_tile, int lane) {
    auto* results = reinterpret_cast<float*>(shared + stream * T::kRingBytes);
    auto* maxima = reinterpret_cast<float*>(shared + T::kMaximumOffset) + stream * T::kRows;
    auto* sums = reinterpret_cast<float*>(shared + T::kSumOffset) + stream * T::kRows;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = (first_tile + tile) * 16 + half * 8 + lane / 4;
        float total = sum[tile][half];
        total += __shfl_xor_sync(0xFFFF'FFFFU, total, 1);
        total += __shfl_xor_sync(0xFFFF'FFFFU, total, 2);
        if (lane % 4 == 0) {
          maxima[row] = maximum[tile][half];
          sums[row] = total;
        }
#pragma unroll
        for (int column = 0; column < kColumns; ++column) {
          auto* to = reinterpret_cast<float2*>(results + row * T::kResultStride + column * 8 +
                                               lane % 4 * 2);
          *to = make_float2(out[tile][column][2 * half], out[tile][column][2 * half + 1]);
        }
      }
    }
  }
};

}  // namespace kvpool::kernels::packed

#pragma GCC diagnostic pop
