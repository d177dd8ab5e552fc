// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/device_spec.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/layout/parallelism.hpp>
#include <kvpool/model/model_config.hpp>

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
  /// Everything else of one rank: context, activations, graphs, communication.
  std::optional<Bytes> overhead{};

  /// Field by field.
  friend bool operator==(const BudgetRequest&, const BudgetRequest&) = default;
};

/// The lines from the device's total down to `kv_budget`, which is the last; its bytes may be
/// negative when the weights alone do not fit.
/// @param device the GPU, if known
/// @param target the model; @param drafter its drafter, or null
/// @return the lines; `kInvalidArgument` when neither a KV budget, a GPU nor its memory is given
[[nodiscard]] Result<std::vector<LedgerLine>> budget_ledger(const BudgetRequest& request,
                                                            const std::optional<DeviceSpec>& device,
                                                            const Parallelism& parallelism,
                                                            const ModelConfig& target,
                                                            const ModelConfig* drafter);

}  // namespace kvpool
