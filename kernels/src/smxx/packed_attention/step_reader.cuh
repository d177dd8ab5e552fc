// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "smxx/packed_attention/launch.hpp"
#include "smxx/packed_attention/ptx.cuh"
#include "smxx/packed_attention/segment.cuh"
#include "smxx/packed_attention/traits.hpp"

#include <cstdint>
#include <utility>

namespace kvpool::kernels::packed {

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

}  // namespace kvpool::kernels::packed
