// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/decision.hpp>
#include <kvpool/capability/kernel_capability.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// Which rows a decision asks.
enum class KernelSet {
  kTrtllm,  ///< every row of TensorRT-LLM that could be picked at run time (default)
  kExact,   ///< of those, the rows that this deployment runs, by shape and architecture
  kKvpool,  ///< the bundled kernels
};

/// Stable lower-case name: `trtllm`, `exact`, `kvpool`.
[[nodiscard]] std::string_view to_string(KernelSet set) noexcept;

/// Reads the spelling of `to_string`, or nothing.
[[nodiscard]] std::optional<KernelSet> parse_kernel_set(std::string_view text) noexcept;

/// The rows that kvpool brings along for other providers' kernels, each with source and version.
[[nodiscard]] std::span<const KernelCapability> known_kernels();

/// The rows known to a process: passed in, never global. Pure data; safe to read from many threads.
class CapabilityRegistry {
 public:
  /// No rows.
  CapabilityRegistry() = default;

  /// A registry with `known_kernels()`.
  [[nodiscard]] static CapabilityRegistry with_known_kernels();

  /// Adds one row.
  /// @return `kInvalidArgument` when a row of this name exists or the row is malformed: no name,
  ///   nobody served, a role that does not go with whom it serves (`draft_block` is for drafters,
  ///   `target_decode` and `target_prefill` for all but DFlash and DSpark), an empty or impossible
  ///   page rule, sizes above 2^20 tokens, limits below 1, an unknown kernel set.
  Result<void> add(KernelCapability row);

  /// All rows, in the order of addition.
  [[nodiscard]] std::span<const KernelCapability> rows() const noexcept { return rows_; }

 private:
  std::vector<KernelCapability> rows_;
};

/// Chooses the page of a standalone drafter's own pool over all *required* rows of `rows` that read
/// the pool: the target's page if every one accepts it, else 32 if every one accepts that, else a
/// refusal with every verdict and the sizes that would work (computed, never a constant). Shapes
/// and architectures are not looked at: narrow `rows` first. No required row: the target's page, as
/// a decision.
/// @param target_page the target pool's page in tokens
/// @param rows draft-block rows that serve the drafter
[[nodiscard]] PageSizeChoice decide_draft_page(Tokens target_page,
                                               std::span<const KernelCapability> rows);

/// Page of the target pool when nothing asks for another, in tokens.
inline constexpr Tokens kDefaultTargetPage{64};

/// The page-size question of one pool, with everything that the answer may depend on.
struct PageSizeQuestion {
  /// The computation that reads the pool.
  KernelQuery query = {};
  /// Which rows to ask.
  KernelSet kernel_set = KernelSet::kTrtllm;
  /// Back-end that the engine is told to use, or empty.
  std::string backend = {};
  /// The page that was asked for explicitly, if any: it is kept or refused, never moved.
  std::optional<Tokens> explicit_page = {};
};

/// Chooses the target pool's page. Explicit: kept, or refused when a required target row that runs
/// on this model and GPU refuses it. Else 64, or the nearest size that all such rows and, where
/// they leave a choice, the model's own preferred kernels accept. A row of certain architectures
/// does not bind while the GPU is not known. Preferred rows that another page would have kept are
/// reported in `losses`.
[[nodiscard]] PageSizeChoice decide_target_page(const CapabilityRegistry& registry,
                                                const PageSizeQuestion& question);

/// Chooses the draft pool's page by the rule of the drafter's kind (`question.query.user`):
/// - DFlash and DSpark as `decide_draft_page` over the kernel set's rows of both kinds, narrowed by
///   `exact` or by a back-end, each as a decision `kernel_set` in `losses`;
/// - MTP and Eagle3 the target's page, or a refusal when a required row that runs refuses it;
/// - draft-target and PARD as `decide_draft_page` over the rows that serve them and run here.
///
/// An unknown back-end (`drafter_backend`) and a kernel set without rows for the drafter
/// (`kernel_set`) are refusals. Preferred rows that would have run at the target's page and are
/// lost are reported in `losses`. An explicit page is kept when every required row accepts it.
/// @pre `question.query.user` is not `kTarget`
[[nodiscard]] PageSizeChoice decide_drafter_page(const CapabilityRegistry& registry,
                                                 const PageSizeQuestion& question,
                                                 Tokens target_page);

}  // namespace kvpool
