// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// Where a stored tensor lives: pipeline stages load different ones.
enum class WeightPlace {
  kEmbedding,  ///< the token table: first stage, and the last one again where the head shares it
  kLayer,      ///< a layer: the stage that owns it
  kHead,       ///< final norm and output head: last stage
  kNextToken,  ///< next-token (MTP) layers: last stage, loaded only by an MTP drafter
  kEncoder,    ///< vision or audio encoder and its projector: first stage
};

/// Stable lower-case name: `embedding`, `layer`, `head`, `next_token`, `encoder`.
[[nodiscard]] std::string_view to_string(WeightPlace place) noexcept;

/// How the ranks of one stage divide a stored tensor.
enum class WeightSplit {
  kReplicated,  ///< every rank keeps all of it: norms, routers, latent down-projections
  kAttention,   ///< over tensor parallel ranks; whole under attention data parallelism
  kTensor,      ///< over tensor parallel ranks
  kExperts,     ///< whole experts over expert parallel ranks, each over what tensor ranks are left
  kUnsure,      ///< engines differ, or the name is not known: between divided and whole
};

/// Stable lower-case name: `replicated`, `attention`, `tensor`, `experts`, `unsure`.
[[nodiscard]] std::string_view to_string(WeightSplit split) noexcept;

/// Stored tensors that are placed and divided alike, added up.
struct WeightPart {
  /// Where.
  WeightPlace place = WeightPlace::kLayer;
  /// Layer of the model from 0; next-token layers count on; 0 for places that are no layers.
  std::int64_t layer = 0;
  /// How it is divided.
  WeightSplit split = WeightSplit::kReplicated;
  /// Units that ranks get whole: heads, rows or columns, experts. 0: any division comes out even.
  std::int64_t units = 0;
  /// Units of one expert over tensor parallel ranks; 0 as above, and for what are no experts.
  std::int64_t inner_units = 0;
  /// Bytes of all these tensors in the whole model, as an engine loads them.
  Bytes bytes{};

  /// Field by field.
  friend bool operator==(const WeightPart&, const WeightPart&) = default;
};

/// The weights of a checkpoint, from the headers of its files.
struct StoredWeights {
  /// Sums by place, layer and division, in that order.
  std::vector<WeightPart> parts{};
  /// The output head is the token table: a last stage apart from the first one has its own copy.
  bool tied_embeddings = false;
  /// Bytes of all tensors in the files, whether an engine loads them or not.
  Bytes stored{};
  /// Stored, and loaded by no engine: a head beside a tied table, position caches.
  Bytes unused{};
  /// Tensors in the files.
  std::int64_t tensors = 0;
  /// Files.
  std::int64_t files = 0;
  /// Names of a few tensors whose division is not known, for people.
  std::vector<std::string> unknown_names{};

  /// Field by field.
  friend bool operator==(const StoredWeights&, const StoredWeights&) = default;
};

}  // namespace kvpool
