// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/kernels/attention_params.hpp>

#include <cstdint>
#include <type_traits>

/// Packed attention: one pass over the KV for few query tokens a sequence, whose keys are divided
/// among all thread blocks of the device. The division is a plan, made on the device from the
/// device's lengths once a step, for all layers with the same window and numbers of heads.
namespace kvpool::kernels {

/// Making a plan for packed attention.
struct PackedPlanParams {
  /// [rows] Tokens of each sequence, as in `PageTableView`.
  const std::int32_t* lengths = nullptr;
  /// [rows + 1] As in `AttentionParams`, or null.
  const std::int32_t* q_indptr = nullptr;
  /// Where the plan goes, aligned to 16 bytes.
  void* plan = nullptr;
  /// Size of `plan`; at least `PackedSizes::plan`.
  std::int64_t plan_bytes = 0;
  /// Sequences in the batch, padded ones included.
  std::int32_t rows = 0;
  /// At least the query tokens of the longest row.
  std::int32_t max_query_tokens = 0;
  /// Query heads of one rank, a multiple of `kv_heads`.
  std::int32_t query_heads = 0;
  /// KV heads of one rank.
  std::int32_t kv_heads = 0;
  /// Elements of a K row and of a V row: 64 or 128.
  std::int32_t head_dim = 0;
  /// As in `AttentionParams`; -1: none.
  std::int32_t window_left = -1;
  /// Thread blocks, `PackedSizes::blocks`.
  std::int32_t blocks = 0;
  /// 0: keys are divided evenly among the blocks, and results depend on the whole batch's lengths
  /// in the last bits. Above 0: every sequence is cut at multiples of so many keys (a multiple of
  /// 16), so that its results do not depend on the rest of the batch.
  std::int32_t split_tokens = 0;
  /// As in `PackedOptions`.
  std::int32_t instance = -1;
  /// Not read.
  std::int32_t reserved = 0;
};

static_assert(std::is_trivially_copyable_v<PackedPlanParams>);
static_assert(std::is_standard_layout_v<PackedPlanParams>);
static_assert(sizeof(PackedPlanParams) == 72);

/// How packed attention is to run; the same for plan and launch.
struct PackedOptions {
  /// As in `PackedPlanParams`.
  std::int32_t split_tokens = 0;
  /// Longest sequence that the batch can have; only read with `split_tokens`.
  std::int64_t max_length = 0;
  /// -1: the kernel that was measured to be the best for the shape. Else one of the compiled ones
  /// by its number, for tests and measurements; sizes, plan and launch have to agree on it.
  std::int32_t instance = -1;
};

/// What makes the plan that this attention runs with: the plan is written where `params.split` has
/// it. One plan serves all layers whose parameters differ in nothing that is read here.
[[nodiscard]] constexpr PackedPlanParams packed_plan_params(
    const AttentionParams& params, const PackedOptions& options = {}) noexcept {
  return {.lengths = params.table.lengths,
          .q_indptr = params.q_indptr,
          .plan = const_cast<void*>(params.split.plan),
          .plan_bytes = params.split.plan_bytes,
          .rows = params.table.rows,
          .max_query_tokens = params.max_query_tokens,
          .query_heads = params.query_heads,
          .kv_heads = params.kv_heads,
          .head_dim = params.k.dim,
          .window_left = params.window_left,
          .blocks = params.split.blocks,
          .split_tokens = options.split_tokens,
          .instance = options.instance};
}

/// What packed attention is sized for.
struct PackedShape {
  std::int64_t rows = 0;              ///< sequences of the batch, padded ones included
  std::int64_t max_query_tokens = 1;  ///< of the longest row
  std::int64_t query_heads = 1;       ///< of one rank
  std::int64_t kv_heads = 1;          ///< of one rank
  std::int64_t head_dim = 64;         ///< of keys and values
  std::int64_t multiprocessors = 0;   ///< of the device
  std::int64_t split_tokens = 0;      ///< as in `PackedPlanParams`
  std::int64_t max_length = 0;        ///< of a sequence; only counts with `split_tokens`
  std::int32_t instance = -1;         ///< as in `PackedOptions`
};

/// Memory that packed attention takes. Without a fixed split nothing depends on lengths.
struct PackedSizes {
  /// Thread blocks of a launch for just this shape, for `PackedPlanParams` and `SplitPlan`. They
  /// exchange results while they run, so all of them have to fit on the device together; a launch
  /// on a device that others use may be refused, and then takes fewer.
  std::int32_t blocks = 0;
  /// `SplitPlan::counter_count`: through these words the blocks exchange results.
  std::int32_t counters = 0;
  Bytes plan{};       ///< `SplitPlan::plan_bytes`
  Bytes workspace{};  ///< `AttentionParams::workspace_bytes`; 0 without a fixed split
};

/// Sizes for a shape. All but `blocks` are enough for every smaller one too.
/// @return `kInvalidArgument` for a shape that is none, `kUnsupported` for a head dim without
/// kernel
[[nodiscard]] Result<PackedSizes> packed_sizes(const PackedShape& shape);

/// Plans that a step may need beside each other, and that a plan of pools charges: layers with
/// windows of different sizes do not share one, nor do passes with other query tokens.
inline constexpr std::int64_t kPackedPlans = 4;

/// Where the memory of packed attention lies in one region, for all layers of a stream: the
/// exchange, which is zero before the first launch and belongs to these kernels alone, then the
/// plans, then the workspace. A batch without a fixed split has no workspace.
struct PackedMemory {
  Bytes exchange{};                   ///< of `SplitPlan::counters`, from the region's begin
  Bytes plan{};                       ///< of each plan, a multiple of 256
  Bytes workspace{};                  ///< `AttentionParams::workspace_bytes`
  std::int64_t plans = kPackedPlans;  ///< beside each other
  /// From the region's begin to a plan.
  [[nodiscard]] Bytes plan_offset(std::int64_t index) const { return exchange + plan * index; }
  /// From the region's begin to the workspace.
  [[nodiscard]] Bytes workspace_offset() const { return plan_offset(plans); }
  /// Of the region.
  [[nodiscard]] Bytes total() const { return workspace_offset() + workspace; }
};

/// Memory for a shape and every smaller one; with `kPackedPlans` what a plan of pools charges for
/// it.
/// @return as `packed_sizes`; `kInvalidArgument` for less than one plan or more than 2^20
[[nodiscard]] Result<PackedMemory> packed_memory(const PackedShape& shape,
                                                 std::int64_t plans = kPackedPlans);

/// Whether a plan can be made from these. Contents of device memory are not read.
/// @return `kInvalidArgument` with the field as key
[[nodiscard]] Result<void> check(const PackedPlanParams& params);

/// Whether packed attention takes these parameters: what `check` asks of all attention, and its
/// head dims, formats, page size, plan, counters and workspace.
/// @return `kInvalidArgument` or `kUnsupported` with the field as key
[[nodiscard]] Result<void> check_packed(const AttentionParams& params,
                                        const PackedOptions& options = {});

/// Makes the plan on the host from host memory, bit for bit what the device makes.
/// @return what `check` says; `kOutOfRange` for a negative length or a `q_indptr` that does not
///   ascend
[[nodiscard]] Result<void> plan_packed_attention_on_host(const PackedPlanParams& params);

}  // namespace kvpool::kernels
