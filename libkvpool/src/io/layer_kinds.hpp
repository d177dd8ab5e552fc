// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "json_reader.hpp"
#include "model_fields.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::io::detail {

/// What a layer is, before its sizes are known.
enum class LayerKind {
  kNone,           ///< owns no cache (MLP, experts, no-op)
  kFull,           ///< attention over all tokens
  kSparse,         ///< MLA with its own indexer, by name
  kSliding,        ///< attention over a window
  kChunked,        ///< attention over the current chunk
  kMamba2,         ///< Mamba-2 state
  kGatedDeltaNet,  ///< gated delta net state
  kKimiDelta,      ///< Kimi delta attention state
  kShortConv,      ///< short convolution state
};

/// True for kinds that keep a recurrent state.
[[nodiscard]] constexpr bool is_recurrent(LayerKind kind) noexcept {
  return kind == LayerKind::kMamba2 || kind == LayerKind::kGatedDeltaNet ||
         kind == LayerKind::kKimiDelta || kind == LayerKind::kShortConv;
}
/// True for kinds that attend.
[[nodiscard]] constexpr bool is_attention(LayerKind kind) noexcept {
  return kind == LayerKind::kFull || kind == LayerKind::kSparse || kind == LayerKind::kSliding ||
         kind == LayerKind::kChunked;
}

/// The kind of each layer and the key that decided it.
struct LayerKinds {
  std::vector<LayerKind> kinds;
  /// KV heads of each layer when the same key says so (`block_configs`), else empty.
  std::vector<std::int64_t> kv_heads;
  /// Deciding key, dotted.
  std::string key;
  /// The rule, for the facts.
  std::string rule;
  /// What the key says when it is one value and not a list of layers.
  std::string stated{};
};

/// Tells the kind of each layer; the first rule that applies decides.
[[nodiscard]] LayerKinds read_layer_kinds(const JsonReader& config, const ModelFields& fields);

/// Kinds of one next-token (MTP) layer when the config lists them (`mtp_hybrid_override_pattern`,
/// `mtp_layers_block_type`); nothing when it does not.
[[nodiscard]] std::optional<LayerKinds> read_mtp_kinds(const JsonReader& config);

}  // namespace kvpool::io::detail
