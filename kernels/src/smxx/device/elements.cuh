// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Elements in memory and their fp32 values.
#pragma once

#include <kvpool/kernels/cache_operand.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace kvpool::kernels {

/// Bytes of the loads and stores of whole rows: the widest a thread has.
inline constexpr int kVectorBytes = 16;

/// What an element is in memory, and how many a vector has. `narrow` rounds to nearest even.
template <ElementType type>
struct Elements;

template <>
struct Elements<ElementType::kFp32> {
  using Type = float;
  static constexpr int kPerVector = 4;
  static __device__ float widen(Type element) { return element; }
  static __device__ Type narrow(float value) { return value; }
  static __device__ void unpack(const uint4& vector, float (&values)[kPerVector]) {
    values[0] = __uint_as_float(vector.x);
    values[1] = __uint_as_float(vector.y);
    values[2] = __uint_as_float(vector.z);
    values[3] = __uint_as_float(vector.w);
  }
};

template <>
struct Elements<ElementType::kBf16> {
  using Type = __nv_bfloat16;
  static constexpr int kPerVector = 8;
  static __device__ float widen(Type element) { return __bfloat162float(element); }
  static __device__ Type narrow(float value) { return __float2bfloat16_rn(value); }
  static __device__ void unpack(const uint4& vector, float (&values)[kPerVector]) {
    // A bf16 is the upper half of an fp32; the element at the lower address is the lower half.
    const std::uint32_t words[] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[2 * i] = __uint_as_float(words[i] << 16U);
      values[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF'0000U);
    }
  }
};

template <>
struct Elements<ElementType::kFp16> {
  using Type = __half;
  static constexpr int kPerVector = 8;
  static __device__ float widen(Type element) { return __half2float(element); }
  static __device__ Type narrow(float value) { return __float2half_rn(value); }
  static __device__ void unpack(const uint4& vector, float (&values)[kPerVector]) {
    const std::uint32_t words[] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __half2_raw raw{static_cast<unsigned short>(words[i] & 0xFFFFU),
                            static_cast<unsigned short>(words[i] >> 16U)};
      const float2 pair = __half22float2(__half2{raw});
      values[2 * i] = pair.x;
      values[2 * i + 1] = pair.y;
    }
  }
};

}  // namespace kvpool::kernels
