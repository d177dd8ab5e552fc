// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/capability/device_spec.hpp>
#include <kvpool/core/kv_dtype.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/layout/page_geometry.hpp>
#include <kvpool/layout/parallelism.hpp>
#include <kvpool/model/model_config.hpp>
#include <kvpool/plan/memory_budget.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace kvpool {

/// What the deployment is asked to hold.
struct Workload {
  /// Sequences at the same time. Without it one is planned for, and nothing is set aside for the
  /// last pages of many.
  std::optional<Sequences> max_num_seqs{};
  /// Longest sequence in tokens. Without it the config's maximum.
  std::optional<Tokens> max_model_len{};
  /// Tokens of one step over all sequences: what windows and chunks hold beyond their own extent
  /// while a prompt is read.
  Tokens max_batched_tokens{8192};
  /// Snapshots of recurrent state kept beside each running sequence's own.
  std::int64_t state_snapshots_per_seq = 0;

  /// Field by field.
  friend bool operator==(const Workload&, const Workload&) = default;
};

/// A drafter beside the target.
struct DrafterRequest {
  /// How it drafts.
  DrafterKind kind = DrafterKind::kMtp;
  /// Its own config; absent for MTP and for kinds that keep no cache.
  std::optional<ModelConfig> model{};
  /// Tokens drafted per step; 0: the config's block, else 1.
  Tokens num_draft_tokens{};
  /// Back-end as engines spell it, or empty for the engine's default.
  std::string backend{};
  /// Format of the draft pool. Without it the draft config's own: the target's never makes a draft
  /// pool cheaper.
  std::optional<KvDtype> kv_dtype{};
  /// Page of the draft pool, kept or refused.
  std::optional<Tokens> tokens_per_block{};
  /// Its layers are part of the target's checkpoint (DSpark).
  bool in_checkpoint = false;

  /// Field by field.
  friend bool operator==(const DrafterRequest&, const DrafterRequest&) = default;
};

/// Everything that a plan depends on, besides the registry's rows.
struct PlanRequest {
  /// The model.
  ModelConfig target{};
  /// Its drafter, if any.
  std::optional<DrafterRequest> drafter{};
  /// How it is spread over GPUs.
  Parallelism parallelism{};
  /// The GPU, if known.
  std::optional<DeviceSpec> device{};
  /// What is known of a rank's memory.
  BudgetRequest budget{};
  /// What it is asked to hold.
  Workload workload{};
  /// Format of the target's cache. Without it the checkpoint's, else the weights' own.
  std::optional<KvDtype> kv_dtype{};
  /// Page of the target pool, kept or refused. Without it 64, or the nearest accepted.
  std::optional<Tokens> tokens_per_block{};
  /// Which kernel rows decide page sizes.
  KernelSet kernel_set = KernelSet::kTrtllm;
  /// Order inside pages and pools.
  PageLayout layout{};
  /// Pages kept back at the start of each pool.
  std::int64_t reserved_pages = 1;
  /// Unit in which memory is mapped, when it is not the device's.
  std::optional<Bytes> granularity{};

  /// Field by field.
  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

}  // namespace kvpool
