// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>
#include <kvpool/core/kv_dtype.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/layout/parallelism.hpp>
#include <kvpool/model/layer_cache.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvpool {

/// What a cache holds.
enum class CacheKind {
  kKeyValue,    ///< K and V rows per KV head
  kLatent,      ///< one MLA record per token
  kIndexer,     ///< one sparse-attention key per token
  kState,       ///< a fixed recurrent state per sequence
  kLatentTail,  ///< the high-precision ring of `fp4_mla` per sequence
};

/// Stable lower-case name: `key_value`, `latent`, `indexer`, `state`, `latent_tail`.
[[nodiscard]] std::string_view to_string(CacheKind kind) noexcept;

/// What one rank keeps of one cache of one layer: a model's `LayerCache` after parallelism and
/// formats have been decided, and before a page size has.
struct LayerGeometry {
  /// Layer in its model, from 0.
  LayerIndex layer{};
  /// What the cache holds.
  CacheKind kind = CacheKind::kKeyValue;
  /// Format of K and V, of the latent record, or of the matrix state.
  KvDtype dtype = KvDtype::kBf16;
  /// Query heads of one rank (0 for indexer and state).
  Heads query_heads{};
  /// KV heads of one rank (1 for latent and indexer).
  Heads kv_heads{};
  /// Elements of a K row; of the latent part for MLA; of an indexer key.
  std::int64_t key_dim = 0;
  /// Elements of a V row; of the rope part for MLA.
  std::int64_t value_dim = 0;
  /// Token positions kept; full for states.
  Span span{};
  /// Elements of the convolution state of one sequence: channels x (kernel - 1).
  std::int64_t conv_elements = 0;
  /// Format of the convolution state.
  KvDtype conv_dtype = KvDtype::kBf16;
  /// Elements of the matrix state of one sequence.
  std::int64_t matrix_elements = 0;
  /// Bytes per sequence of a latent tail.
  Bytes tail_bytes{};

  /// Field by field.
  friend bool operator==(const LayerGeometry&, const LayerGeometry&) = default;
};

/// Formats of one pool's caches.
struct CacheFormats {
  /// K, V and latent.
  KvDtype kv = KvDtype::kBf16;
  /// Convolution state, when the model's config does not fix it.
  KvDtype conv_state = KvDtype::kBf16;
  /// Matrix state, when the model's config does not fix it.
  KvDtype matrix_state = KvDtype::kFp32;
  /// Draft tokens that a step may reject (sizes the tail ring of `fp4_mla`).
  std::int64_t max_rewind = 0;

  /// Field by field.
  friend bool operator==(const CacheFormats&, const CacheFormats&) = default;
};

/// The caches of `layers` on one rank. Heads are rounded up per rank; latent and indexer are
/// replicated; the state of a recurrent layer is divided by TP (Mamba-2 groups that TP does not
/// divide are replicated).
/// @param layers consecutive layers of one model (a pipeline stage)
/// @return one entry per owned cache, in layer order; `kUnsupported` when a format does not suit a
///   cache (an MLA-only format on a GQA layer, say), `kInvalidArgument` when TP does not divide a
///   recurrent layer's heads
[[nodiscard]] Result<std::vector<LayerGeometry>> layer_geometry(std::span<const ModelLayer> layers,
                                                                const Parallelism& parallelism,
                                                                const CacheFormats& formats);

}  // namespace kvpool
