// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "model_kernels.hpp"

#include <cuda_bf16.h>

namespace example::gpu {
namespace {

constexpr int kThreads = 128;
constexpr int kWarp = 32;
/// Tokens that a block of `multiply` computes with one read of the matrix.
constexpr int kTokens = 8;

unsigned int blocks_for(std::int64_t count) {
  return static_cast<unsigned int>((count + kThreads - 1) / kThreads);
}

/// What a launch said; nobody finds it again.
cudaError_t launched() { return cudaGetLastError(); }

__device__ float sum_of_warp(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFU, value, distance);
  }
  return value;
}

__global__ void embed_kernel(const float* embedding, const std::int32_t* tokens, float* x,
                             int hidden) {
  const std::int64_t token = blockIdx.x;
  const std::int64_t row = tokens[token];
  for (int i = static_cast<int>(threadIdx.x); i < hidden; i += kThreads) {
    x[token * hidden + i] = embedding[row * hidden + i];
  }
}

__global__ void norm_kernel(const float* x, const float* factors, float* y, int hidden) {
  const float* const in = x + static_cast<std::int64_t>(blockIdx.x) * hidden;
  float* const out = y + static_cast<std::int64_t>(blockIdx.x) * hidden;
  float squares = 0.0F;
  for (int i = static_cast<int>(threadIdx.x); i < hidden; i += kWarp) {
    squares += in[i] * in[i];
  }
  const float scale = rsqrtf(sum_of_warp(squares) / static_cast<float>(hidden) + 1e-6F);
  for (int i = static_cast<int>(threadIdx.x); i < hidden; i += kWarp) {
    out[i] = in[i] * scale * factors[i];
  }
}

__global__ void multiply_kernel(const float* x, const float* matrix, float* y, int count, int in,
                                int out, bool adds) {
  extern __shared__ float inputs[];  // [kTokens, in]
  const int first = static_cast<int>(blockIdx.y) * kTokens;
  const int tokens = min(kTokens, count - first);
  for (int i = static_cast<int>(threadIdx.x); i < kTokens * in; i += kThreads) {
    inputs[i] = i < tokens * in ? x[static_cast<std::int64_t>(first) * in + i] : 0.0F;
  }
  __syncthreads();
  const int o = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (o >= out) {
    return;
  }
  float sums[kTokens] = {};
  for (int i = 0; i < in; ++i) {
    const float weight = matrix[static_cast<std::int64_t>(i) * out + o];
    for (int t = 0; t < kTokens; ++t) {
      sums[t] += inputs[t * in + i] * weight;
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    if (t < tokens) {
      float* const place = y + static_cast<std::int64_t>(first + t) * out + o;
      *place = adds ? *place + sums[t] : sums[t];
    }
  }
}

__global__ void rotate_kernel(const float* x, Rotation rotation, __nv_bfloat16* y,
                              std::int64_t count, int heads, int head_dim) {
  const int half = head_dim / 2;
  const std::int64_t pair = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pair >= count * heads * half) {
    return;
  }
  const std::int64_t head = pair / half;  // over all tokens
  const int i = static_cast<int>(pair % half);
  float low = x[head * head_dim + i];
  float high = x[head * head_dim + i + half];
  if (rotation.cosine != nullptr) {
    const std::int64_t place =
        static_cast<std::int64_t>(rotation.positions[head / heads]) * half + i;
    const float cosine = rotation.cosine[place];
    const float sine = rotation.sine[place];
    const float turned = low * cosine - high * sine;
    high = high * cosine + low * sine;
    low = turned;
  }
  y[head * head_dim + i] = __float2bfloat16_rn(low);
  y[head * head_dim + i + half] = __float2bfloat16_rn(high);
}

__global__ void widen_kernel(const __nv_bfloat16* x, float* y, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) {
    y[i] = __bfloat162float(x[i]);
  }
}

__global__ void gate_kernel(float* gate, const float* up, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) {
    gate[i] = gate[i] / (1.0F + expf(-gate[i])) * up[i];
  }
}

__global__ void largest_kernel(const float* x, std::int32_t* places, int width) {
  const float* const row = x + static_cast<std::int64_t>(blockIdx.x) * width;
  int place = static_cast<int>(threadIdx.x) < width ? static_cast<int>(threadIdx.x) : 0;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kWarp) {
    place = row[i] > row[place] ? i : place;
  }
  float value = row[place];
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(0xFFFFFFFFU, value, distance);
    const int other_place = __shfl_xor_sync(0xFFFFFFFFU, place, distance);
    if (other > value || (other == value && other_place < place)) {
      value = other;
      place = other_place;
    }
  }
  if (threadIdx.x == 0) {
    places[blockIdx.x] = place;
  }
}

__global__ void make_drafts_kernel(BlockArrays block, PassTokens pass, int rows, int groups,
                                   std::int32_t mask) {
  const int t = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (t >= rows * kDrafts) {
    return;
  }
  const int row = t / kDrafts;
  const int i = t % kDrafts;
  pass.tokens[t] = i == 0 ? block.anchors[row] : mask;
  pass.positions[t] = block.firsts[row] + i;
  for (int g = 0; g < groups; ++g) {
    pass.slots[g * rows * kDrafts + t] = block.slots[(g * rows + row) * kBlock + i];
  }
}

__global__ void make_blocks_kernel(BlockArrays block, const std::int32_t* drafted,
                                   std::int32_t* proposed, PassTokens pass, int rows) {
  const int t = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (t >= rows * kBlock) {
    return;
  }
  const int row = t / kBlock;
  const int i = t % kBlock;
  pass.positions[t] = block.firsts[row] + i;
  if (i == 0) {
    pass.tokens[t] = block.anchors[row];
    return;
  }
  const int draft = row * kDrafts + i - 1;
  const std::int32_t token = block.proposals[draft] < 0 ? drafted[draft] : block.proposals[draft];
  pass.tokens[t] = token;
  proposed[draft] = token;
}

}  // namespace

cudaError_t embed(const float* embedding, const std::int32_t* tokens, float* x, int count,
                  int hidden, cudaStream_t stream) {
  embed_kernel<<<static_cast<unsigned int>(count), kThreads, 0, stream>>>(embedding, tokens, x,
                                                                          hidden);
  return launched();
}

cudaError_t norm(const float* x, const float* factors, float* y, int count, int hidden,
                 cudaStream_t stream) {
  norm_kernel<<<static_cast<unsigned int>(count), kWarp, 0, stream>>>(x, factors, y, hidden);
  return launched();
}

cudaError_t multiply(const float* x, const float* matrix, float* y, int count, int in, int out,
                     bool adds, cudaStream_t stream) {
  const dim3 grid{blocks_for(out), static_cast<unsigned int>((count + kTokens - 1) / kTokens)};
  const std::size_t shared = sizeof(float) * kTokens * static_cast<std::size_t>(in);
  multiply_kernel<<<grid, kThreads, shared, stream>>>(x, matrix, y, count, in, out, adds);
  return launched();
}

cudaError_t rotate(const float* x, const Rotation& rotation, void* y, int count, int heads,
                   int head_dim, cudaStream_t stream) {
  const std::int64_t pairs = std::int64_t{count} * heads * (head_dim / 2);
  rotate_kernel<<<blocks_for(pairs), kThreads, 0, stream>>>(
      x, rotation, static_cast<__nv_bfloat16*>(y), count, heads, head_dim);
  return launched();
}

cudaError_t widen(const void* x, float* y, std::int64_t count, cudaStream_t stream) {
  widen_kernel<<<blocks_for(count), kThreads, 0, stream>>>(static_cast<const __nv_bfloat16*>(x), y,
                                                           count);
  return launched();
}

cudaError_t gate(float* gate, const float* up, std::int64_t count, cudaStream_t stream) {
  gate_kernel<<<blocks_for(count), kThreads, 0, stream>>>(gate, up, count);
  return launched();
}

cudaError_t largest(const float* x, std::int32_t* places, int count, int width,
                    cudaStream_t stream) {
  largest_kernel<<<static_cast<unsigned int>(count), kWarp, 0, stream>>>(x, places, width);
  return launched();
}

cudaError_t make_drafts(const BlockArrays& block, const PassTokens& pass, int rows, int groups,
                        std::int32_t mask, cudaStream_t stream) {
  make_drafts_kernel<<<blocks_for(std::int64_t{rows} * kDrafts), kThreads, 0, stream>>>(
      block, pass, rows, groups, mask);
  return launched();
}

cudaError_t make_blocks(const BlockArrays& block, const std::int32_t* drafted,
                        std::int32_t* proposed, const PassTokens& pass, int rows,
                        cudaStream_t stream) {
  make_blocks_kernel<<<blocks_for(std::int64_t{rows} * kBlock), kThreads, 0, stream>>>(
      block, drafted, proposed, pass, rows);
  return launched();
}

}  // namespace example::gpu
