// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Results relative to a maximum, and where normalised ones go.
#pragma once

#include "smxx/packed_attention/launch.hpp"
#include "smxx/packed_attention/ptx.cuh"

#include <cuda_runtime.h>

#include <cstdint>

namespace kvpool::kernels::packed {

inline constexpr float kLog2E = 1.4426950408889634F;

/// Four outputs of a row: sum(w * v) and sum(w), with w relative to 2^maximum.
struct MergedVector {
  float maximum = -INFINITY;
  float sum = 0.0F;
  float4 out{0.0F, 0.0F, 0.0F, 0.0F};

  __device__ void add(float weight, const float4& values) {
    out.x = fmaf(weight, values.x, out.x);
    out.y = fmaf(weight, values.y, out.y);
    out.z = fmaf(weight, values.z, out.z);
    out.w = fmaf(weight, values.w, out.w);
  }

  /// Raises the maximum.
  __device__ void raise(float to) {
    const float factor = power_of_two(maximum - fmaxf(to, -1e30F));
    sum *= factor;
    out.x *= factor;
    out.y *= factor;
    out.z *= factor;
    out.w *= factor;
    maximum = to;
  }

  /// Takes in another result, of later keys.
  __device__ void add(const MergedVector& other) {
    const float largest = fmaxf(maximum, other.maximum);
    const float weight = power_of_two(other.maximum - fmaxf(largest, -1e30F));
    raise(largest);
    sum = fmaf(weight, other.sum, sum);
    add(weight, other.out);
  }

  /// That of another lane.
  [[nodiscard]] __device__ MergedVector of_lane(int mask) const {
    MergedVector other;
    other.maximum = __shfl_xor_sync(0xFFFF'FFFFU, maximum, mask);
    other.sum = __shfl_xor_sync(0xFFFF'FFFFU, sum, mask);
    other.out.x = __shfl_xor_sync(0xFFFF'FFFFU, out.x, mask);
    other.out.y = __shfl_xor_sync(0xFFFF'FFFFU, out.y, mask);
    other.out.z = __shfl_xor_sync(0xFFFF'FFFFU, out.z, mask);
    other.out.w = __shfl_xor_sync(0xFFFF'FFFFU, out.w, mask);
    return other;
  }

  [[nodiscard]] __device__ float lse() const {
    return sum == 0.0F ? -INFINITY : maximum + __log2f(sum);
  }
};

/// Outputs of the query rows of one tile.
class OutputRows {
 public:
  __device__ OutputRows(const KernelParams& params, std::int32_t q_first, std::int32_t kv_head,
                        std::int32_t first_row)
      : params_{params}, q_first_{q_first}, kv_head_{kv_head}, first_row_{first_row} {}

  /// Normalises and writes four outputs; whoever has column 0 writes the log-sum-exp.
  template <typename T>
  __device__ void write(int row, int column, const MergedVector& merged) const {
    const std::int32_t packed = first_row_ + row;
    const std::int32_t t = params_.group.quotient(packed);
    const std::int64_t token = q_first_ + t;
    const std::int64_t head = kv_head_ * params_.group.divisor() + params_.group.rest(packed, t);
    float factor = 0.0F;
    if (merged.sum != 0.0F) {  // also for NaN
      float denominator = merged.sum;
      if (params_.sinks != nullptr) {
        denominator += power_of_two(params_.sinks[head] * kLog2E - merged.maximum);
      }
      factor = params_.v_scale * reciprocal(denominator);
    }
    auto* to =
        reinterpret_cast<uint2*>(params_.out + 2 * (token * params_.out_token_stride +
                                                    head * params_.out_head_stride + column));
    *to = make_uint2(narrow_pair<T::kType>(merged.out.x * factor, merged.out.y * factor),
                     narrow_pair<T::kType>(merged.out.z * factor, merged.out.w * factor));
    if (column == 0 && params_.lse != nullptr) {
      params_.lse[token * params_.lse_token_stride + head * params_.lse_head_stride] =
          merged.lse() * params_.lse_factor;
    }
  }

 private:
  const KernelParams& params_;
  std::int32_t q_first_;
  std::int32_t kv_head_;
  std::int32_t first_row_;
};

}  // namespace kvpool::kernels::packed
