// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/cuda/stream.hpp>
#include <kvpool/kernels/attention_path.hpp>
#include <kvpool/kernels/packed_attention.hpp>
#include <kvpool/kernels/params.hpp>

namespace kvpool::kernels {

// Each call checks its parameters on the host, enqueues one kernel on the current device and
// returns without waiting. Whatever the parameters point to has to stay valid until the kernel has
// run; the parameters themselves are copied. Nothing is allocated, so every call can be captured
// into a graph. Several threads may call at once.
//
// Errors: `invalid_argument` or `unsupported` for parameters that the kernel does not take, before
// anything is enqueued; `device` if the launch fails. Contents of device memory (page tables,
// lengths, slot mappings) cannot be checked here: wrong ones are undefined behaviour.

/// Writes new tokens into their pages, K and V in one launch. Sources and caches of one element
/// type, fp32, bf16 or fp16.
[[nodiscard]] Result<void> append(const AppendParams& params, StreamHandle stream);

/// Attention over pages by a kernel made to be right, not fast: one thread block for each query
/// token and head, everything in fp32. Queries, cache and outputs of one element type, fp32, bf16
/// or fp16. It needs no workspace and does not split. The result of a token does not depend on the
/// rest of the batch.
[[nodiscard]] Result<void> attention(const AttentionParams& params, StreamHandle stream);

/// Makes the plan of a batch for packed attention, from the lengths that the device has when it
/// runs: once a step, and captured with it.
[[nodiscard]] Result<void> plan_packed_attention(const PackedPlanParams& params,
                                                 StreamHandle stream);

/// Attention over pages in one pass over the keys: query tokens and heads of one KV head share it,
/// and the keys are divided among all thread blocks as `params.split.plan` says. Queries, cache and
/// outputs of one element type, bf16 or fp16, K and V rows of 64 or 128 elements, pages of a
/// multiple of 16 tokens. Results repeat bit for bit while lengths stay the same; they depend on
/// the batch only in how partial sums are grouped, and with `options.split_tokens` not at all.
/// The words of `params.split.counters` are zero before the first launch, and after each.
/// The kernel starts before its predecessors on the stream have ended, and waits for them before it
/// reads; a kernel behind it that is launched in the same way has to wait too.
[[nodiscard]] Result<void> packed_attention(const AttentionParams& params,
                                            const PackedOptions& options, StreamHandle stream);

/// Packed attention on a path: see `run_on_path`. `calls` counts what was enqueued.
[[nodiscard]] Result<void> attention_on_path(const PathStep& step, const AttentionParams& params,
                                             PathCalls& calls, StreamHandle stream);

/// Makes the table of decode rows, from the lengths that the device has when it runs.
[[nodiscard]] Result<void> expand_decode_rows(const DecodeRowParams& params, StreamHandle stream);

/// Copies pages.
[[nodiscard]] Result<void> copy_pages(const PageCopyParams& params, StreamHandle stream);

/// Overwrites changed entries and lengths of a batch's page tables.
[[nodiscard]] Result<void> apply_table_deltas(const TableDeltaParams& params, StreamHandle stream);

}  // namespace kvpool::kernels
