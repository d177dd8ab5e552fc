// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>
#include <kvpool/layout/page_geometry.hpp>
#include <kvpool/model/model_config.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace kvpool {

/// Whose rules decide where a drafter's cache lives.
enum class Profile {
  kKvpool,  ///< this library's own pools
  kTrtllm,  ///< TensorRT-LLM's managers
};

/// Where a drafter's cache lives.
enum class DraftPoolKind {
  kOwnPool,       ///< a pool of its own, from the KV budget
  kTargetLayers,  ///< further layers of the target's pool
  kPrivateArena,  ///< memory that the drafter allocates beside the pools
  kNone,          ///< it keeps no cache
};

/// Stable lower-case name: `own_pool`, `target_layers`, `private_arena`, `none`.
[[nodiscard]] std::string_view to_string(DraftPoolKind kind) noexcept;

/// What the answer depends on.
struct DraftPoolQuestion {
  /// Kind of drafter.
  DrafterKind drafter = DrafterKind::kDflash;
  /// Drafter back-end as engines spell it (`TRTLLM`, `VANILLA`, `FA4`, `CUTEDSL`), or empty for the
  /// engine's default.
  std::string backend{};
  /// Attention is data parallel.
  bool attention_data_parallel = false;
  /// Pipeline stages.
  std::int64_t pipeline = 1;
  /// `model_type` of the target.
  std::string target_model_type{};
  /// DSpark whose layers are part of the target's checkpoint.
  bool in_checkpoint = false;
};

/// The one place where it is decided whether a draft pool exists.
/// Source: TensorRT-LLM `_should_create_separate_draft_kv_cache` and the DFlash worker.
[[nodiscard]] DraftPoolKind draft_pool_kind(Profile profile, const DraftPoolQuestion& question);

/// Bytes that a drafter's private arena takes: `slots * ceil(capacity / page)` pages, whatever is
/// in use. Shown beside a pool for comparison, and charged where an engine uses one.
/// @param page one page of the drafter's layers
/// @param slots requests plus one scratch slot
/// @param capacity longest sequence plus one draft block, in tokens
[[nodiscard]] Bytes private_arena_bytes(const PageGeometry& page, std::int64_t slots,
                                        Tokens capacity) noexcept;

}  // namespace kvpool
