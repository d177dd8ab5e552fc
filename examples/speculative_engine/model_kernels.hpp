// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What of a model is not attention, on a GPU, by the simplest means: the KV path is kvpool's, and
// these only have to be right. All pointers are of the device. Each call enqueues one kernel, and
// says what the launch said.
#pragma once

#include "step_arrays.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace example::gpu {

/// x[t] = embedding[tokens[t]].
cudaError_t embed(const float* embedding, const std::int32_t* tokens, float* x, int count,
                  int hidden, cudaStream_t stream);
/// RMSNorm.
cudaError_t norm(const float* x, const float* factors, float* y, int count, int hidden,
                 cudaStream_t stream);
/// y = x * matrix, or y += x * matrix; matrix is [in, out].
cudaError_t multiply(const float* x, const float* matrix, float* y, int count, int in, int out,
                     bool adds, cudaStream_t stream);
/// RoPE of every head, rounded to bf16. Without `cosine` it only rounds.
struct Rotation {
  const float* cosine = nullptr;
  const float* sine = nullptr;
  const std::int32_t* positions = nullptr;
};
cudaError_t rotate(const float* x, const Rotation& rotation, void* y, int count, int heads,
                   int head_dim, cudaStream_t stream);
/// bf16 to fp32.
cudaError_t widen(const void* x, float* y, std::int64_t count, cudaStream_t stream);
/// gate = silu(gate) * up.
cudaError_t gate(float* gate, const float* up, std::int64_t count, cudaStream_t stream);
/// Place of the largest number of each row, of equal ones the first.
cudaError_t largest(const float* x, std::int32_t* places, int count, int width,
                    cudaStream_t stream);

/// Tokens of a pass that the device makes itself.
struct PassTokens {
  std::int32_t* tokens = nullptr;
  std::int32_t* positions = nullptr;
  std::int64_t* slots = nullptr;  ///< [groups, tokens]
};
/// The drafter's blocks: anchors, and masks behind them.
cudaError_t make_drafts(const BlockArrays& block, const PassTokens& pass, int rows, int groups,
                        std::int32_t mask, cudaStream_t stream);
/// The blocks to verify: anchors, and behind them what is given, or the drafter's tokens.
/// @param proposed [rows, kDrafts] gets the latter
cudaError_t make_blocks(const BlockArrays& block, const std::int32_t* drafted,
                        std::int32_t* proposed, const PassTokens& pass, int rows,
                        cudaStream_t stream);

}  // namespace example::gpu
