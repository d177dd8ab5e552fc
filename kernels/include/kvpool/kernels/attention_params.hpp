// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/page_table_view.hpp>
#include <kvpool/kernels/cache_operand.hpp>

#include <cstdint>
#include <type_traits>

namespace kvpool::kernels {

/// Logarithm of the log-sum-exp that attention returns. Engines differ: FlashInfer takes base 2,
/// FlashAttention and vLLM the natural one.
enum class LogBase : std::int32_t {
  kTwo = 0,      ///< log2(sum(exp(score)))
  kNatural = 1,  ///< ln(sum(exp(score)))
};

/// Where a kernel that splits a sequence over several thread blocks reads its division of the work.
/// A kernel that does not split ignores it; null and 0 then.
struct SplitPlan {
  /// Written by the kernel's planning step, in its own format; aligned to 16 bytes.
  const void* plan = nullptr;
  /// Size of `plan`.
  std::int64_t plan_bytes = 0;
  /// [counter_count] Zero before the first launch; every launch leaves zeros. Never shared with
  /// other kernels.
  std::int32_t* counters = nullptr;
  /// Counters; at least the work items of the largest batch.
  std::int32_t counter_count = 0;
  /// Thread blocks that the plan was made for.
  std::int32_t blocks = 0;
};

static_assert(std::is_trivially_copyable_v<SplitPlan>);
static_assert(std::is_standard_layout_v<SplitPlan>);
static_assert(sizeof(SplitPlan) == 32);

/// Attention of a batch over one layer of one pool.
///
/// Row r has the query tokens [q_indptr[r], q_indptr[r + 1]) and `table.lengths[r]` tokens in the
/// pool, its own query tokens included: query token t of q_len stands at position
/// p = lengths[r] - q_len + t. It sees the keys j with 0 <= j < lengths[r] and
/// - j <= p, if `causal`;
/// - j >= p - window_left, if `window_left` >= 0;
/// - j <= p + window_right, if `window_right` >= 0.
///
/// With s_j = scale * k_scale * (q . k_j), or softcap * tanh(s_j / softcap) of it if `softcap` > 0:
/// out = v_scale * sum(exp(s_j) * v_j) / (sum(exp(s_j)) + exp(sink)), lse = log(sum(exp(s_j))).
/// A token that sees no key has out = 0 and lse = -infinity. The sink never enters the lse, so that
/// results over parts of a sequence can be merged and the sink applied once.
///
/// Query head h reads KV head h / (query_heads / kv_heads).
struct AttentionParams {
  /// [tokens, query_heads, k.dim] Queries.
  const void* q = nullptr;
  /// [tokens, query_heads, v.dim] Outputs. Every element is written.
  void* out = nullptr;
  /// [tokens, query_heads] Log-sum-exp, or null.
  float* lse = nullptr;
  /// [query_heads] Logit of a key without value, of natural exponent, not scaled; or null.
  const float* sinks = nullptr;
  /// [table.rows + 1] First query token of each row, ascending, from 0 to `tokens`; or null: every
  /// row has `max_query_tokens`.
  const std::int32_t* q_indptr = nullptr;
  /// Scratch memory of the kernel, aligned to 256 bytes; null if it needs none.
  void* workspace = nullptr;
  /// Size of `workspace`.
  std::int64_t workspace_bytes = 0;
  /// Pages and lengths. Row r's block b is at entry `entries[r * row_stride_entries + b]`;
  /// addresses come from `k` and `v`, not from `table.base_address`.
  PageTableView table{};
  /// Keys, or MLA records.
  CacheOperand k{};
  /// Values. For MLA it starts where `k` does: the first `v.dim` elements of each record.
  CacheOperand v{};
  /// Scales of parts of key rows, as the pool keeps them; `base` is null if there are none.
  CacheOperand k_scales{};
  /// Scales of parts of value rows; `base` is null if there are none.
  CacheOperand v_scales{};
  /// Division of the work, for kernels that split.
  SplitPlan split{};
  /// Elements of `q` from one token to the next.
  std::int64_t q_token_stride = 0;
  /// Elements of `q` from one head to the next.
  std::int64_t q_head_stride = 0;
  /// Elements of `out` from one token to the next.
  std::int64_t out_token_stride = 0;
  /// Elements of `out` from one head to the next.
  std::int64_t out_head_stride = 0;
  /// Elements of `lse` from one token to the next.
  std::int64_t lse_token_stride = 0;
  /// Elements of `lse` from one head to the next.
  std::int64_t lse_head_stride = 0;
  /// Factor of q . k, mostly 1 / sqrt(k.dim).
  float scale = 1.0F;
  /// Bound of the scores (tanh), 0: none.
  float softcap = 0.0F;
  /// What stored keys are multiplied by; 1 unless the cache is quantised.
  float k_scale = 1.0F;
  /// What stored values are multiplied by; 1 unless the cache is quantised.
  float v_scale = 1.0F;
  /// Query tokens of the batch.
  std::int32_t tokens = 0;
  /// At least the query tokens of the longest row.
  std::int32_t max_query_tokens = 0;
  /// Query heads of one rank, a multiple of `kv_heads`.
  std::int32_t query_heads = 0;
  /// KV heads of one rank; 1 for MLA.
  std::int32_t kv_heads = 0;
  /// Keys before its own position that a token sees, itself aside; -1: all.
  std::int32_t window_left = -1;
  /// Keys after its own position that a token sees; -1: all.
  std::int32_t window_right = -1;
  /// 1: no token sees a later one; 0: only windows and lengths limit.
  std::int32_t causal = 1;
  /// Format of `q`.
  ElementType q_type = ElementType::kBf16;
  /// Format of `out`.
  ElementType out_type = ElementType::kBf16;
  /// Logarithm of `lse`.
  LogBase lse_base = LogBase::kTwo;
};

static_assert(std::is_trivially_copyable_v<AttentionParams>);
static_assert(std::is_standard_layout_v<AttentionParams>);
static_assert(sizeof(AttentionParams) == 400);

/// First query token of a row; for `row` = table.rows the end of the last one.
[[nodiscard]] KVPOOL_HOST_DEVICE constexpr std::int64_t first_query(const AttentionParams& params,
                                                                    std::int64_t row) noexcept {
  return params.q_indptr == nullptr ? row * params.max_query_tokens : params.q_indptr[row];
}

/// The keys [first, end) that one query token sees. Empty if `end` <= `first`.
struct KeyRange {
  /// First key.
  std::int64_t first = 0;
  /// One past the last key.
  std::int64_t end = 0;
};

/// Which keys of a sequence a token may see: a part of `AttentionParams`.
struct KeyMask {
  /// 1: no token sees a later one.
  std::int32_t causal = 1;
  /// Keys before its own position that a token sees, itself aside; -1: all.
  std::int32_t window_left = -1;
  /// Keys after its own position that a token sees; -1: all.
  std::int32_t window_right = -1;
};

/// Keys that query token `t` of `q_len` sees in a row of `length` tokens.
[[nodiscard]] KVPOOL_HOST_DEVICE constexpr KeyRange visible_keys(const KeyMask& mask,
                                                                 std::int64_t length,
                                                                 std::int64_t q_len,
                                                                 std::int64_t t) noexcept {
  const std::int64_t position = length - q_len + t;
  KeyRange keys{0, length};
  if (mask.causal != 0 && position + 1 < keys.end) {
    keys.end = position + 1;
  }
  if (mask.window_right >= 0 && position + mask.window_right + 1 < keys.end) {
    keys.end = position + mask.window_right + 1;
  }
  if (mask.window_left >= 0 && position - mask.window_left > keys.first) {
    keys.first = position - mask.window_left;
  }
  return keys;
}

/// Keys that query token `t` of `q_len` sees in a row of `length` tokens.
[[nodiscard]] KVPOOL_HOST_DEVICE constexpr KeyRange visible_keys(const AttentionParams& params,
                                                                 std::int64_t length,
                                                                 std::int64_t q_len,
                                                                 std::int64_t t) noexcept {
  return visible_keys(KeyMask{params.causal, params.window_left, params.window_right}, length,
                      q_len, t);
}

/// Merging the partial results of attention over parts of each sequence. Item i = t * query_heads
/// + h has the partial rows [part_indptr[i], part_indptr[i + 1]). A partial weighs
/// exp2(lse - maximum), and 0 if its lse is -infinity; without any weight out = 0, lse = -infinity.
struct MergeParams {
  /// [partial rows, dim] Normalised partial outputs.
  const float* partial_out = nullptr;
  /// [partial rows] Their log-sum-exp, base 2.
  const float* partial_lse = nullptr;
  /// [tokens * query_heads + 1] First partial row of each item, ascending; or null: item i has the
  /// rows [i * parts, (i + 1) * parts).
  const std::int32_t* part_indptr = nullptr;
  /// [query_heads] Logit of a key without value, as in `AttentionParams`, or null.
  const float* sinks = nullptr;
  /// [tokens, query_heads, dim] Outputs.
  void* out = nullptr;
  /// [tokens, query_heads] Log-sum-exp of the whole, without the sink, or null.
  float* lse = nullptr;
  /// Elements of `partial_out` from one row to the next.
  std::int64_t partial_row_stride = 0;
  /// Elements of `out` from one token to the next.
  std::int64_t out_token_stride = 0;
  /// Elements of `out` from one head to the next.
  std::int64_t out_head_stride = 0;
  /// Elements of `lse` from one token to the next.
  std::int64_t lse_token_stride = 0;
  /// Elements of `lse` from one head to the next.
  std::int64_t lse_head_stride = 0;
  /// Query tokens.
  std::int32_t tokens = 0;
  /// Query heads of one rank.
  std::int32_t query_heads = 0;
  /// Elements of one output row.
  std::int32_t dim = 0;
  /// Partial rows of every item; not read if `part_indptr` is set.
  std::int32_t parts = 0;
  /// Format of `out`.
  ElementType out_type = ElementType::kBf16;
  /// Logarithm of `lse`.
  LogBase lse_base = LogBase::kTwo;
};

static_assert(std::is_trivially_copyable_v<MergeParams>);
static_assert(std::is_standard_layout_v<MergeParams>);
static_assert(sizeof(MergeParams) == 112);

}  // namespace kvpool::kernels
