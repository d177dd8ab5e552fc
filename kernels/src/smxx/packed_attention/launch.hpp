// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/attention_params.hpp>
#include <kvpool/kernels/packed_attention.hpp>

#include "smxx/packed_attention/divider.hpp"
#include "smxx/packed_attention/plan_format.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace kvpool::kernels::packed {

/// What the kernels are called with: `AttentionParams` in the order in which a block needs them, so
/// that it waits for few lines of the constant bank.
struct KernelParams {
  void* plan = nullptr;
  const std::int32_t* entries = nullptr;
  std::int64_t row_stride_entries = 0;
  Divider steps_per_page{};
  Divider m_tiles{};               ///< tiles of query rows
  Divider group{};                 ///< query heads of a KV head
  std::int32_t items_per_row = 1;  ///< KV heads * m_tiles

  const char* k = nullptr;
  const char* v = nullptr;
  std::int64_t k_entry_stride = 0;  ///< strides of caches in bytes
  std::int64_t v_entry_stride = 0;
  std::int64_t k_head_stride = 0;
  std::int64_t v_head_stride = 0;
  std::int64_t k_slot_stride = 0;
  std::int64_t v_slot_stride = 0;

  const char* q = nullptr;
  std::int64_t q_token_stride = 0;  ///< strides of queries and outputs in elements
  std::int64_t q_head_stride = 0;
  KeyMask mask{};
  float scale = 1.0F;  ///< of q . k, in base 2; with a cap it gives 2 x / ln(2) for tanh(x)
  float cap = 0.0F;    ///< softcap in base 2, or 0
  float v_scale = 1.0F;
  std::int32_t blocks = 0;     ///< of the plan
  std::int32_t read_once = 1;  ///< 1: no other item reads the same keys

  float* workspace = nullptr;  ///< partial results for the merge kernel; null: there are none
  float* exchange =
      nullptr;  ///< partial results that blocks hand to each other; null: merge kernel
  char* out = nullptr;
  float* lse = nullptr;
  const float* sinks = nullptr;
  std::int64_t out_token_stride = 0;
  std::int64_t out_head_stride = 0;
  std::int64_t lse_token_stride = 0;
  std::int64_t lse_head_stride = 0;
  float lse_factor = 1.0F;  ///< of a log-sum-exp in base 2
  std::int32_t rows = 0;    ///< table rows
};

/// @param merges whether the blocks of an item merge it
inline KernelParams kernel_params(const AttentionParams& params, std::int32_t m_tiles,
                                  bool merges) {
  constexpr float kLog2E = 1.4426950408889634F;
  constexpr float kLn2 = 0.6931471805599453F;
  const float scale = params.scale * params.k_scale;
  const bool capped = params.softcap > 0.0F;
  return {.plan = const_cast<void*>(params.split.plan),
          .entries = params.table.entries,
          .row_stride_entries = params.table.row_stride_entries,
          .steps_per_page = Divider{params.table.tokens_per_block / kStep},
          .m_tiles = Divider{m_tiles},
          .group = Divider{params.query_heads / params.kv_heads},
          .items_per_row = params.kv_heads * m_tiles,
          .k = static_cast<const char*>(params.k.base),
          .v = static_cast<const char*>(params.v.base),
          .k_entry_stride = params.k.entry_stride_bytes,
          .v_entry_stride = params.v.entry_stride_bytes,
          .k_head_stride = params.k.head_stride_bytes,
          .v_head_stride = params.v.head_stride_bytes,
          .k_slot_stride = params.k.slot_stride_bytes,
          .v_slot_stride = params.v.slot_stride_bytes,
          .q = static_cast<const char*>(params.q),
          .q_token_stride = params.q_token_stride,
          .q_head_stride = params.q_head_stride,
          .mask = {params.causal, params.window_left, params.window_right},
          .scale = capped ? scale / params.softcap * (2.0F * kLog2E) : scale * kLog2E,
          .cap = capped ? params.softcap * kLog2E : 0.0F,
          .v_scale = params.v_scale,
          .blocks = params.split.blocks,
          .read_once = m_tiles == 1 ? 1 : 0,
          .workspace = static_cast<float*>(params.workspace),
          .exchange = merges ? reinterpret_cast<float*>(params.split.counters) : nullptr,
          .out = static_cast<char*>(params.out),
          .lse = params.lse,
          .sinks = params.sinks,
          .out_token_stride = params.out_token_stride,
          .out_head_stride = params.out_head_stride,
          .lse_token_stride = params.lse_token_stride,
          .lse_head_stride = params.lse_head_stride,
          .lse_factor = params.lse_base == LogBase::kNatural ? kLn2 : 1.0F,
          .rows = params.table.rows};
}

/// Enqueues an instance of `kPackedInstances`, by its place in it, if it is for this format and for
/// rows of this length. @pre the parameters are checked
template <ElementType type, int dim>
cudaError_t launch_for(const KernelParams& params, std::size_t instance, cudaStream_t stream);

/// Enqueues the kernels. @pre the parameters are checked
cudaError_t launch(const AttentionParams& params, const PackedOptions& options,
                   cudaStream_t stream);

/// Enqueues the making of a plan. @pre the parameters are checked
cudaError_t launch_plan(const PackedPlanParams& params, cudaStream_t stream);

}  // namespace kvpool::kernels::packed
