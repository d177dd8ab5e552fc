// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/device_spec.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/layout/parallelism.hpp>
#include <kvpool/model/model_config.hpp>
#include <kvpool/plan/overheads.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// How sure a ledger line is.
enum class LedgerKind {
  kExact,     ///< given by the user, or allocated
  kDerived,   ///< follows from other lines
  kAssumed,   ///< from published figures or an estimate, with a range
  kMeasured,  ///< read from a device or a log
};

/// Stable lower-case name: `exact`, `derived`, `assumed`, `measured`.
[[nodiscard]] std::string_view to_string(LedgerKind kind) noexcept;

/// One line of the account of a rank's memory.
struct LedgerLine {
  /// Stable name, such as `device_total`, `weights`, `kv_budget`, `pool:target`, `rounding_loss`.
  std::string name{};
  /// Bytes; the plan reckons with these.
  Bytes bytes{};
  /// How sure.
  LedgerKind kind = LedgerKind::kExact;
  /// Smallest amount that it may turn out to be.
  Bytes low{};
  /// Largest amount that it may turn out to be.
  Bytes high{};
  /// Where the number comes from.
  std::string reason{};

  /// Field by field.
  friend bool operator==(const LedgerLine&, const LedgerLine&) = default;
};

/// What the caller says about a rank's memory. What is left out is taken from the device, estimated
/// from the model, or assumed from published figures.
struct BudgetRequest {
  /// What kvpool owns: pools, workspaces, reserved pages, loss. Nothing above it is looked at.
  std::optional<Bytes> kv_budget{};
  /// Memory of the GPU as the process sees it.
  std::optional<Bytes> gpu_memory{};
  /// Share of the GPU's memory that may be used, in millionths.
  std::int64_t utilization_ppm = 920'000;
  /// Weights of one rank, target and drafter.
  std::optional<Bytes> weights{};
  /// Everything else of one rank: context, activations, graphs, communication. Other processes on
  /// the GPU are not part of it.
  std::optional<Bytes> overhead{};
  /// What `overhead` is made of where it is not given as a whole, and other processes on the GPU.
  OverheadRequest overheads{};

  /// Field by field.
  friend bool operator==(const BudgetRequest&, const BudgetRequest&) = default;
};

/// Part of a model's weights and how a deployment divides it.
struct WeightShare {
  /// Stored bytes in the whole model.
  Bytes stored{};
  /// Ranks over which a pipeline stage's part is divided.
  std::int64_t ranks = 1;
  /// Bytes of one rank: `ceil(stored / (ranks x pipeline stages))`.
  Bytes per_rank{};

  /// Field by field.
  friend bool operator==(const WeightShare&, const WeightShare&) = default;
};

/// The weights of one rank by how they are divided.
struct WeightShares {
  /// What mixes tokens: over the tensor-parallel ranks, whole under attention data parallelism.
  WeightShare attention{};
  /// Routed experts: over the larger of expert and tensor parallel size.
  WeightShare routed_experts{};
  /// Everything else, over the tensor-parallel ranks.
  WeightShare rest{};
  /// Bytes of one rank. Parts that are divided alike are added before they are.
  Bytes per_rank{};

  /// Field by field.
  friend bool operator==(const WeightShares&, const WeightShares&) = default;
};

/// Divides a model's estimated weights over the ranks.
[[nodiscard]] WeightShares weight_shares(const ParameterEstimate& estimate,
                                         const Parallelism& parallelism) noexcept;

/// True for a drafter that runs behind the target's last layer, and so lies on the last pipeline
/// stage as a whole, weights and pools: MTP and Eagle3.
[[nodiscard]] bool runs_on_last_stage_only(DrafterKind kind) noexcept;
/// The same of a drafter's config; false for a target's.
[[nodiscard]] bool lies_on_last_stage(const ModelConfig& drafter) noexcept;

/// The lines of every pipeline stage, from the device's total down to `kv_budget`, which is the
/// last; its bytes may be negative when the weights alone do not fit. Stages differ in their
/// weights where a checkpoint says what each loads: estimates are divided evenly. An MTP or Eagle3
/// drafter lies on the last stage, other drafters are dealt out as their pools are.
/// @param device the GPU, if known
/// @param step_tokens tokens of one step (`max_num_batched_tokens`), which activations grow with
/// @param target the model; @param drafter its drafter, or null
/// @param next_token_layers whether next-token (MTP) layers of the target are loaded, which only an
///   MTP drafter uses; estimates always count them
/// @return the lines of each stage; `kInvalidArgument` when neither a KV budget, a GPU nor its
///   memory is given, and for more stages than layers
[[nodiscard]] Result<std::vector<std::vector<LedgerLine>>> stage_ledgers(
    const BudgetRequest& request, const std::optional<DeviceSpec>& device,
    const Parallelism& parallelism, Tokens step_tokens, const ModelConfig& target,
    const ModelConfig* drafter, bool next_token_layers = false);

/// The lines of the stage that has the least left, the first of equals.
[[nodiscard]] Result<std::vector<LedgerLine>> budget_ledger(
    const BudgetRequest& request, const std::optional<DeviceSpec>& device,
    const Parallelism& parallelism, Tokens step_tokens, const ModelConfig& target,
    const ModelConfig* drafter, bool next_token_layers = false);

}  // namespace kvpool
