// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The instructions of packed attention that CUDA C++ has no name for.
#pragma once

#include <kvpool/kernels/cache_operand.hpp>

#include <cstdint>

namespace kvpool::kernels::packed {

/// Waits until the kernels before this one have ended and what they wrote can be read.
__device__ inline void wait_for_predecessors() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel be placed on the device. It waits by itself before it reads.
__device__ inline void let_successors_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// What the L2 does with lines that were read.
__device__ inline std::uint64_t stream_policy(bool read_once) {
  std::uint64_t policy = 0;
  if (read_once) {
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  } else {
    asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  }
  return policy;
}

/// Starts to copy 16 bytes to shared memory at `to` + offset.
template <int offset>
__device__ inline void copy_async(std::uint32_t to, const void* from, std::uint64_t policy) {
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0 + %2], [%1], 16, %3;" ::"r"(to),
      "l"(from), "n"(offset), "l"(policy)
      : "memory");
}

/// The same, but where `valid` is 0 nothing is read and the bytes become 0.
template <int offset>
__device__ inline void copy_async(std::uint32_t to, const void* from, std::uint64_t policy,
                                  std::uint32_t valid) {
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0 + %2], [%1], 16, %4, %3;" ::"r"(to),
      "l"(from), "n"(offset), "l"(policy), "r"(valid)
      : "memory");
}

/// The same, for bytes that other blocks will read too.
__device__ inline void copy_async(std::uint32_t to, const void* from, std::uint32_t valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}

__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until all but the newest `pending` groups have arrived.
template <int pending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// A barrier of some warps of a block.
template <int threads>
__device__ inline void stream_barrier(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(threads) : "memory");
}

__device__ inline void load_matrices(std::uint32_t (&to)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

__device__ inline void load_matrices_transposed(std::uint32_t (&to)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

/// c += a * b for a tile of 16 rows, 8 columns and 16 inner elements.
template <ElementType type>
__device__ inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
  if constexpr (type == ElementType::kBf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// Two numbers rounded to nearest even, `low` in the lower half.
template <ElementType type>
__device__ inline std::uint32_t narrow_pair(float low, float high) {
  std::uint32_t pair;
  if constexpr (type == ElementType::kBf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
}

/// 2^x; 0 for -infinity.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 / x within an ulp, without the slow path of a division.
__device__ inline float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Reads what other blocks of the grid may be writing at the same time, word by word.
__device__ inline float4 load_exchanged(const float4* from) {
  float4 to;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to.x), "=f"(to.y), "=f"(to.z), "=f"(to.w)
               : "l"(from)
               : "memory");
  return to;
}

__device__ inline float load_exchanged(const float* from) {
  float to;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(to) : "l"(from) : "memory");
  return to;
}

/// Writes words that other blocks of the grid wait for. No order among them is promised.
__device__ inline void store_exchanged(float4* to, const float4& from) {
  asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(from.x),
               "f"(from.y), "f"(from.z), "f"(from.w)
               : "memory");
}

__device__ inline void store_exchanged(float* to, float from) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(from) : "memory");
}

}  // namespace kvpool::kernels::packed
