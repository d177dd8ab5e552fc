// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the bench itself: random data, and the reader that attention is measured against.
#pragma once

#include <kvpool/kernels/attention_params.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace kvpool::bench {

/// Fills memory with bf16 numbers between -1.7 and 1.7.
void fill_bf16(void* data, std::size_t bytes, std::uint32_t seed, cudaStream_t stream);

/// Copies a multiple of 16 bytes.
void copy_bytes(void* to, const void* from, std::size_t bytes, cudaStream_t stream);

/// Reads every K and V page of a batch once through its page table and does nothing with them: what
/// an attention kernel cannot be faster than. Rows have `lengths[row]` tokens, whole steps of 16,
/// at most `max_length`. @param blocks thread blocks
void paged_read(const kernels::AttentionParams& params, std::int32_t max_length, int blocks,
                std::uint32_t* sink, cudaStream_t stream);

/// Reads of another order: rows of very different lengths, by their list of (row, head, step).
/// @param items [count] row, KV head, first key
void paged_read_items(const kernels::AttentionParams& params, const int4* items, std::int64_t count,
                      int blocks, std::uint32_t* sink, cudaStream_t stream);

}  // namespace kvpool::bench
