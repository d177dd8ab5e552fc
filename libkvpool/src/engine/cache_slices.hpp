// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/checked.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/engine/engine_request.hpp>
#include <kvpool/layout/layer_geometry.hpp>
#include <kvpool/model/model_config.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::detail {

/// What one rank keeps of one cache of one layer, with the bytes of a token or of a state.
struct CacheSlice {
  /// Layer in its model; draft layers are counted on from the target's last.
  std::int64_t layer = 0;
  /// A drafter's.
  bool draft = false;
  /// What it holds.
  CacheKind kind = CacheKind::kKeyValue;
  /// Tokens kept.
  Span span{};
  /// Family of a state.
  StateFamily family = StateFamily::kMamba2;
  /// KV heads of the rank.
  std::int64_t heads = 1;
  /// Elements of a K row (latent part, indexer key).
  std::int64_t key_dim = 0;
  /// Elements of a V row (rope part).
  std::int64_t value_dim = 0;
  /// Bytes of a token: K rows, latent records or indexer keys of all heads, scales included.
  std::int64_t key_bytes = 0;
  /// Bytes of a token: V rows of all heads.
  std::int64_t value_bytes = 0;
  /// Convolution channels of the rank.
  std::int64_t conv_channels = 0;
  /// Columns of the convolution state without draft tokens.
  std::int64_t conv_columns = 0;
  /// Bytes of a column of one state.
  std::int64_t conv_column_bytes = 0;
  /// Bytes of the matrix part of one state.
  std::int64_t matrix_bytes = 0;

  /// True for a recurrent state.
  [[nodiscard]] bool is_state() const noexcept { return kind == CacheKind::kState; }
  /// Bytes of one token over K and V.
  [[nodiscard]] CheckedInt token_bytes() const noexcept {
    return CheckedInt{key_bytes} + value_bytes;
  }
  /// Bytes of a state with `extra` columns for draft tokens.
  [[nodiscard]] CheckedInt state_bytes(std::int64_t extra = 0) const noexcept {
    return (CheckedInt{conv_columns} + extra) * conv_column_bytes + matrix_bytes;
  }
  /// Tokens that a request of `length` can see.
  [[nodiscard]] std::int64_t kept_tokens(std::int64_t length) const noexcept;
};

/// How an engine sees the layers.
struct SliceRules {
  /// Ranks over which heads and states are divided.
  std::int64_t tensor = 1;
  /// Format of K, and of everything that has no V.
  EngineFormat key_format{};
  /// Format of V.
  EngineFormat value_format{};
  /// Type of the recurrent state, where the engine sets it.
  std::optional<KvDtype> state_dtype{};
  /// Type of the convolution state, where the engine sets it.
  std::optional<KvDtype> conv_state_dtype{};
  /// V rows are as wide as K rows (TensorRT-LLM).
  bool values_as_wide_as_keys = false;
  /// Windows and chunks are kept in full.
  bool windows_in_full = false;
  /// MLA as llama.cpp keeps it; without it as a latent record.
  std::optional<MlaMode> mla{};
  /// Indexer keys are kept.
  bool indexers = true;
  /// Cross attention is understood (vLLM only).
  bool cross_attention = false;
};

/// The format of a deployment's cache: the stated one, else the checkpoint's, else the weights'.
[[nodiscard]] EngineFormat cache_format(const EngineSettings& settings, const ModelConfig& model);

/// Caches of the target's attention layer that a next-token (MTP) layer copies: the config's own
/// statement, else the first full attention layer with the most caches.
[[nodiscard]] std::vector<LayerCache> copied_layer(const ModelConfig& model);

/// What one rank keeps of a model's layers; the bytes come from `PageGeometry`.
[[nodiscard]] Result<std::vector<CacheSlice>> model_slices(const ModelConfig& model,
                                                           const SliceRules& rules);

/// A drafter's layers.
struct DraftSlices {
  /// What one rank keeps of them.
  std::vector<CacheSlice> slices;
  /// Layers that own a cache.
  std::int64_t layers = 0;
  /// False when neither config nor number of layers is known: what depends on them is not
  /// predicted.
  bool known = true;
};

/// What one rank keeps of a request's drafter; nothing without one.
[[nodiscard]] Result<DraftSlices> draft_slices(const EngineRequest& request,
                                               const SliceRules& rules);

/// The pipeline stage of a layer, by the rule of `stage_layers` but without looking at every stage.
/// @pre 1 <= stages <= layers, 0 <= layer < layers
[[nodiscard]] std::int64_t stage_of_layer(std::int64_t layer, std::int64_t layers,
                                          std::int64_t stages) noexcept;

/// The slices of each pipeline stage, in order.
[[nodiscard]] std::vector<std::vector<CacheSlice>> by_stage(const std::vector<CacheSlice>& slices,
                                                            std::int64_t layers,
                                                            std::int64_t stages);

/// Layers of a kind, for people: `full 4x256`, `state kimi_delta`.
[[nodiscard]] std::string describe(const CacheSlice& slice);

/// An error about a setting.
[[nodiscard]] Error setting_error(std::string_view key, std::string message,
                                  ErrorCode code = ErrorCode::kInvalidArgument);

}  // namespace kvpool::detail
