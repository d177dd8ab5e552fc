// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>
#include <kvpool/core/kv_dtype.hpp>
#include <kvpool/core/units.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace kvpool {

/// Which token positions a cache keeps for a sequence.
enum class SpanKind {
  kFull,           ///< every token
  kSlidingWindow,  ///< the last `extent` tokens
  kChunked,        ///< the tokens of the current chunk of `extent` tokens
  kCross,          ///< the encoder's tokens, whatever the decoder's length
};

/// Stable lower-case name: `full`, `sliding_window`, `chunked`, `cross`.
[[nodiscard]] std::string_view to_string(SpanKind kind) noexcept;

/// Token positions that a cache keeps.
struct Span {
  /// Which rule.
  SpanKind kind = SpanKind::kFull;
  /// Window, chunk, or encoder length in tokens; 0 for full.
  Tokens extent{};

  /// Orders by kind, then extent.
  friend auto operator<=>(const Span&, const Span&) = default;
};

/// Keys and values per KV head (MHA, GQA, MQA), over all ranks.
struct AttentionCache {
  /// Query heads.
  Heads query_heads{};
  /// KV heads before tensor parallelism.
  Heads kv_heads{};
  /// Elements of one key row.
  std::int64_t key_dim = 0;
  /// Elements of one value row; may differ from `key_dim`.
  std::int64_t value_dim = 0;
  /// Positions kept.
  Span span{};

  /// Field by field.
  friend bool operator==(const AttentionCache&, const AttentionCache&) = default;
};

/// One compressed vector per token (MLA), shared by all heads and by K and V; never split by TP.
struct LatentCache {
  /// Query heads.
  Heads query_heads{};
  /// Compressed elements (`kv_lora_rank`).
  std::int64_t latent_dim = 0;
  /// Positional elements (`qk_rope_head_dim`).
  std::int64_t rope_dim = 0;
  /// Positions kept.
  Span span{};
  /// Elements of a head's key beside the positional ones before compression (`qk_nope_head_dim`),
  /// 0 when not stated: what an engine keeps that does not compress.
  std::int64_t nope_dim = 0;
  /// Elements of a head's value before compression (`v_head_dim`), 0 when not stated.
  std::int64_t value_dim = 0;

  /// Field by field.
  friend bool operator==(const LatentCache&, const LatentCache&) = default;
};

/// Key of a sparse-attention indexer, beside a latent cache; never split by TP.
struct IndexerCache {
  /// Elements of one key (`index_head_dim`).
  std::int64_t key_dim = 0;

  /// Field by field.
  friend bool operator==(const IndexerCache&, const IndexerCache&) = default;
};

/// Families of recurrent layers: the rule behind the sizes of a `StateCache`.
enum class StateFamily {
  kMamba2,         ///< C = heads*dim + 2*groups*state, M = heads*dim*state
  kGatedDeltaNet,  ///< C = 2*key heads*key dim + value heads*value dim
  kKimiDelta,      ///< C = 3*heads*dim, M = heads*dim*dim
  kShortConv,      ///< C = hidden size, M = 0
};

/// Stable lower-case name: `mamba2`, `gated_delta_net`, `kimi_delta`, `short_conv`.
[[nodiscard]] std::string_view to_string(StateFamily family) noexcept;

/// Fixed state of a recurrent layer per sequence, over all ranks: a convolution state of
/// `conv_channels * (conv_kernel - 1)` elements and a matrix state of `matrix_elements`.
struct StateCache {
  /// Which rule gave the sizes.
  StateFamily family = StateFamily::kMamba2;
  /// Convolution channels C. The part that TP divides; see `replicated_channels`.
  std::int64_t conv_channels = 0;
  /// Convolution kernel width K; the state keeps K - 1 columns.
  std::int64_t conv_kernel = 0;
  /// Elements M of the matrix (SSM) state.
  std::int64_t matrix_elements = 0;
  /// Heads of the matrix state: the number that TP must divide.
  std::int64_t heads = 0;
  /// Groups that share B and C of Mamba-2 (0 when the family has none).
  std::int64_t groups = 0;
  /// Channels of one group (`2 * ssm_state_size`), already counted in `conv_channels`.
  std::int64_t channels_per_group = 0;
  /// Stored type of the convolution state when the config fixes it.
  std::optional<KvDtype> conv_dtype{};
  /// Stored type of the matrix state when the config fixes it (`mamba_ssm_cache_dtype`,
  /// `mamba_ssm_dtype`).
  std::optional<KvDtype> matrix_dtype{};

  /// Field by field.
  friend bool operator==(const StateCache&, const StateCache&) = default;
};

/// One thing that a layer keeps.
using LayerCache = std::variant<AttentionCache, LatentCache, IndexerCache, StateCache>;

/// What one layer of a model keeps: nothing (MLP, no-op, or a layer that reads another's cache),
/// one cache, or several (latent + indexer; self + cross attention).
struct ModelLayer {
  /// Position in the model, from 0.
  LayerIndex index{};
  /// The caches that this layer owns, in a fixed order.
  std::vector<LayerCache> caches{};
  /// The earlier layer whose cache this one reads instead of owning one.
  std::optional<LayerIndex> shares_with{};

  /// Field by field.
  friend bool operator==(const ModelLayer&, const ModelLayer&) = default;
};

}  // namespace kvpool
