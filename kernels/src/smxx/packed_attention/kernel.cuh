// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Packed attention: every stream of a thread block reads its own steps of keys through its own ring
// in shared memory, without a barrier of the block, and keeps outputs of all query rows in
// registers. At the end of a segment the streams' results are merged in a fixed order.
#pragma once

#include <kvpool/kernels/attention_params.hpp>

#include "capability_rows.hpp"
#include "smxx/packed_attention/launch.hpp"
#include "smxx/packed_attention/merge.cuh"
#include "smxx/packed_attention/ptx.cuh"
#include "smxx/packed_attention/schedule.hpp"
#include "smxx/packed_attention/traits.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

// The host compiler sees array bounds that depend on a template as conversions of int.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

namespace kvpool::kernels::packed {

/// A row's outputs are multiplied again only when its maximum has grown by more than this power of
/// two: until then weights stay below 2^8, which no format loses.
inline constexpr float kMaximumSlack = 8.0F;

/// A part of one item: what one block computes between two merges.
struct Segment {
  std::int32_t row;  ///< table row
  std::int32_t kv_head;
  std::int32_t first_row;  ///< first query row (token * group + head of the group) of the tile
  std::int32_t rows;       ///< query rows of the tile
  std::int32_t q_first;
  std::int32_t q_count;
  std::int32_t length;
  std::int32_t first_key;   ///< first key that any query token sees
  std::int32_t step_begin;  ///< steps [step_begin, step_end) of the sequence
  std::int32_t step_end;
};

/// Reads a value and does nothing with it.
template <typename Value>
__device__ inline void touch(const Value& value) {
  asm volatile("" ::"l"(value));
}

/// A record of the plan, 16 bytes at a time.
template <typename Record>
__device__ inline Record load_record(const Record* from) {
  constexpr int kParts = static_cast<int>(sizeof(Record) / sizeof(uint4));
  union {
    uint4 parts[kParts];
    Record record;
  } to{};
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    to.parts[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  return to.record;
}

/// Copies the queries of a segment into shared memory; rows that do not exist become 0.
template <typename T>
__device__ inline void load_queries(const KernelParams& params, const Segment& segment,
                                    char* shared) {
  const std::uint32_t base = shared_address(shared + T::kQueryOffset);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < T::kRows * T::kChunks; i += T::kThreads) {
    const int row = i / T::kChunks;
    const int chunk = i % T::kChunks;
    const int packed = segment.first_row + min(row, segment.rows - 1);
    const std::int32_t t = params.group.quotient(packed);
    const std::int64_t token = segment.q_first + t;
    const std::int64_t head =
        segment.kv_head * params.group.divisor() + params.group.rest(packed, t);
    const char* from =
        params.q + 2 * (token * params.q_token_stride + head * params.q_head_stride) + 16 * chunk;
    copy_async(base + static_cast<std::uint32_t>(row * T::kRowBytes + 16 * (chunk ^ (row & 7))),
               from, row < segment.rows ? 16U : 0U);
  }
  commit_copies();
}

/// Keys that each query row of the segment sees, for steps in which they differ.
template <typename T>
__device__ inline void load_limits(const KernelParams& params, const Segment& segment,
                                   char* shared) {
  auto* limits = reinterpret_cast<std::int32_t*>(shared + T::kLimitOffset);
  const int row = static_cast<int>(threadIdx.x);
  if (row < T::kRows) {
    KeyRange keys{0, 0};
    if (row < segment.rows) {
      keys = visible_keys(params.mask, segment.length, segment.q_count,
                          params.group.quotient(segment.first_row + row));
    }
    limits[row] = static_cast<std::int32_t>(keys.first);
    limits[T::kRows + row] =
        static_cast<std::int32_t>(min(keys.end, std::int64_t{kStep} * segment.step_end));
  }
}

/// Reads the keys and values of one stream into its ring, T::kSteps steps at a time.
template <typename T>
class StepReader {
 public:
  __device__ StepReader(const KernelParams& params, const Segment& segment, char* shared,
                        int stream, int part)
      : params_{params},
        table_{params.entries + segment.row * params.row_stride_entries},
        first_step_{segment.step_begin + stream * T::kSteps},
        steps_{segment.step_end - first_step_},
        first_key_{segment.first_key},
        keys_{static_cast<std::uint32_t>(min(segment.length, segment.step_end * kStep) -
                                         segment.first_key)},
        lane_{static_cast<int>(threadIdx.x) % 32},
        part_{part} {
    // The first thing: all else waits for the pages.
    next_page_ = page_of(0);
    policy_ = stream_policy(params.read_once != 0);
    const int row = lane_ / T::kChunks;
    const int chunk = lane_ % T::kChunks;
    k_ =
        params.k + segment.kv_head * params.k_head_stride + row * params.k_slot_stride + 16 * chunk;
    v_ =
        params.v + segment.kv_head * params.v_head_stride + row * params.v_slot_stride + 16 * chunk;
    ring_ = shared_address(shared + stream * T::kRingBytes);
    to_ = static_cast<std::uint32_t>(row * T::kRowBytes + 16 * (chunk ^ row));
  }

  /// Turns of the stream.
  [[nodiscard]] __device__ int count() const {
    return steps_ > 0 ? (steps_ - 1) / (T::kStreams * T::kSteps) + 1 : 0;
  }
  /// First key of turn i.
  [[nodiscard]] __device__ int key(int i) const {
    return (first_step_ + i * T::kStreams * T::kSteps) * kStep;
  }

  /// Starts to read turn i, if there is one. The group is committed in any case.
  __device__ void read(int i, int stage) {
    if (i * T::kStreams * T::kSteps < steps_) {
      if (i % kTurns == 0) {
        locate(i);
      }
      const std::uint32_t to = ring_ + static_cast<std::uint32_t>(stage * T::kStageBytes);
      const int first = key(i) - first_key_;
      const bool whole = first >= 0 && static_cast<std::uint32_t>(first + T::kKeys) <= keys_;
#pragma unroll
      for (int step = 0; step < T::kSteps; ++step) {
        const int from_lane = i % kTurns * T::kSteps + step;
        const std::uint32_t at = to + static_cast<std::uint32_t>(step * 2 * T::kOperandBytes);
        if (2 * step % T::kStreamWarps == part_) {
          copy<0>(k_ + __shfl_sync(0xFFFF'FFFFU, k_offset_, from_lane), params_.k_slot_stride, at,
                  first + step * kStep, whole);
        }
        if ((2 * step + 1) % T::kStreamWarps == part_) {
          copy<T::kOperandBytes>(v_ + __shfl_sync(0xFFFF'FFFFU, v_offset_, from_lane),
                                 params_.v_slot_stride, at, first + step * kStep, whole);
        }
      }
    }
    commit_copies();
  }

 private:
  static constexpr int kRowsPerCopy = 32 / T::kChunks;
  static constexpr int kCopies = kStep / kRowsPerCopy;
  /// Turns whose pages the lanes look up together.
  static constexpr int kTurns = 32 / T::kSteps;

  /// The step, counted from the stream's first, of which this lane finds the page.
  [[nodiscard]] __device__ int lane_step(int i) const {
    return (i + lane_ / T::kSteps) * T::kStreams * T::kSteps + lane_ % T::kSteps;
  }

  [[nodiscard]] __device__ std::int32_t page_of(int i) const {
    const int step = lane_step(i);
    return step < steps_ ? __ldg(table_ + params_.steps_per_page.quotient(first_step_ + step)) : 0;
  }

  /// Each lane works out where one of the next 32 steps lies, and asks for the page of a later one.
  /// A step behind the last has the place of the turn's first: it is not read.
  __device__ void locate(int i) {
    const std::int32_t at = first_step_ + lane_step(i);
    const std::int32_t slot =
        kStep * params_.steps_per_page.rest(at, params_.steps_per_page.quotient(at));
    k_offset_ = next_page_ * params_.k_entry_stride + slot * params_.k_slot_stride;
    v_offset_ = next_page_ * params_.v_entry_stride + slot * params_.v_slot_stride;
    next_page_ = page_of(i + kTurns);
  }

  template <int operand>
  __device__ void copy(const char* from, std::int64_t slot_stride, std::uint32_t to, int first,
                       bool whole) const {
    copy_rows<operand>(from, slot_stride, to, first, whole,
                       std::make_integer_sequence<int, kCopies>{});
  }

  template <int operand, int... i>
  __device__ void copy_rows(const char* from, std::int64_t slot_stride, std::uint32_t to, int first,
                            bool whole, std::integer_sequence<int, i...> /*copies*/) const {
    const std::int64_t stride = kRowsPerCopy * slot_stride;
    if (whole) {
      (copy_async<operand + i * kRowsPerCopy * T::kRowBytes>(
           to + (to_ ^ static_cast<std::uint32_t>(16 * (i * kRowsPerCopy & 7))), from + i * stride,
           policy_),
       ...);
    } else {
      // Keys that no query sees may hold anything: they become 0 and are not read.
      const auto offset = static_cast<std::uint32_t>(first + lane_ / T::kChunks);
      (copy_async<operand + i * kRowsPerCopy * T::kRowBytes>(
           to + (to_ ^ static_cast<std::uint32_t>(16 * (i * kRowsPerCopy & 7))), from + i * stride,
           policy_, offset + i * kRowsPerCopy < keys_ ? 16U : 0U),
       ...);
    }
  }

  const KernelParams& params_;
  const std::int32_t* table_;
  int first_step_;
  int steps_;  ///< from the stream's first step to the end of the segment
  int first_key_;
  std::uint32_t keys_;
  int lane_;
  int part_;
  std::uint64_t policy_;
  const char* k_;
  const char* v_;
  std::uint32_t ring_;
  std::uint32_t to_;
  std::int64_t k_offset_ = 0;
  std::int64_t v_offset_ = 0;
  std::int32_t next_page_ = 0;
};

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

/// Enqueues a kernel that may be placed on the device before its predecessors have ended.
/// @param together whether all blocks have to run at the same time; if they cannot, it fails
inline cudaError_t enqueue(void (*kernel)(KernelParams), std::int64_t blocks, int threads,
                           int shared_bytes, bool together, cudaStream_t stream,
                           const KernelParams& params) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeCooperative;
  attributes[1].val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3{static_cast<unsigned>(blocks)};
  config.blockDim = dim3{static_cast<unsigned>(threads)};
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = together ? 2 : 1;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, params);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // reported here, so that nobody finds it again
  }
  return status;
}

/// Enqueues one instance, and the merge kernel where blocks do not merge.
template <typename T>
cudaError_t launch_instance(const KernelParams& params, cudaStream_t stream) {
  cudaError_t status =
      cudaFuncSetAttribute(kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSharedBytes);
  if (status == cudaSuccess) {
    status = enqueue(kernel<T>, params.blocks, T::kThreads, T::kSharedBytes,
                     params.exchange != nullptr, stream, params);
  }
  // With a fixed split results must not depend on the batch: instances for many items do not run.
  if constexpr (T::kBlocksPerMultiprocessor == 1) {
    if (status == cudaSuccess && params.exchange == nullptr) {
      const std::int64_t blocks = std::int64_t{params.rows} * params.items_per_row *
                                  (T::kRows * T::kRowUnits / kMergeUnits);
      status = enqueue(merge_kernel<T>, blocks, kMergeThreads, 0, false, stream, params);
    }
  }
  return status;
}

/// The instance at a place of the list, if it is one for this format and these rows.
template <ElementType type, int dim, std::size_t... i>
cudaError_t launch_listed(const KernelParams& params, std::size_t instance, cudaStream_t stream,
                          std::index_sequence<i...> /*instances*/) {
  cudaError_t status = cudaErrorInvalidValue;
  const auto launched = [&]<std::size_t at>() {
    constexpr PackedInstance kInstance = kPackedInstances[at];
    if constexpr (kInstance.type == type && kInstance.dim == dim) {
      if (at == instance) {
        status = launch_instance<
            Traits<type, dim, kInstance.row_tiles, kInstance.warps, kInstance.stream_warps,
                   kInstance.steps, kInstance.stages, kInstance.blocks>>(params, stream);
        return true;
      }
    }
    return false;
  };
  static_cast<void>((launched.template operator()<i>() || ...));
  return status;
}

template <ElementType type, int dim>
cudaError_t launch_for(const KernelParams& params, std::size_t instance, cudaStream_t stream) {
  return launch_listed<type, dim>(params, instance, stream,
                                  std::make_index_sequence<kPackedInstances.size()>{});
}

}  // namespace kvpool::kernels::packed

#pragma GCC diagnostic pop
