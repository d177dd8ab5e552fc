// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/checked.hpp>

#include "json_reader.hpp"
#include "layer_kinds.hpp"
#include "model_fields.hpp"

#include <cstdint>
#include <vector>

namespace kvpool::io::detail {

/// Parameters of the feed-forward part of one layer.
struct MlpParameters {
  CheckedInt dense{0};
  CheckedInt experts{0};
  /// Projections to and from the narrower stream of the experts, stored like them.
  CheckedInt expert_stream{0};
  CheckedInt shared_experts{0};
  CheckedInt router{0};
};

/// Feed-forward parts of a model: which layers are dense, which have experts, and how large.
class MlpWeights {
 public:
  /// Reads the figures; what is missing counts as 0.
  MlpWeights(const JsonReader& config, const ModelFields& fields, const LayerKinds& kinds);

  /// The feed-forward part of a layer.
  [[nodiscard]] const MlpParameters& of(std::int64_t layer) const {
    return kinds_[by_layer_[static_cast<std::size_t>(layer)]];
  }
  /// The feed-forward part of a next-token layer.
  [[nodiscard]] const MlpParameters& of_mtp() const { return kinds_[has_experts_ ? 2 : 1]; }
  /// Parameters of the encoder of an encoder-decoder model.
  [[nodiscard]] CheckedInt encoder() const { return encoder_; }
  /// True when the config does not say how wide the MLPs are.
  [[nodiscard]] bool lacks_width() const noexcept { return lacks_width_; }

 private:
  void read_sizes(const JsonReader& config, const ModelFields& fields);
  void place(const JsonReader& config, const ModelFields& fields, const LayerKinds& kinds);
  bool place_blocks(const JsonReader& config, const ModelFields& fields, const LayerKinds& kinds);
  void read_encoder(const JsonReader& config, const ModelFields& fields);

  std::vector<MlpParameters> kinds_;   // none, dense, experts, then one per special layer
  std::vector<std::size_t> by_layer_;  // index into kinds_
  std::int64_t matrices_ = 3;          // 3 with a gate, else 2
  bool has_experts_ = false;
  bool lacks_width_ = false;
  CheckedInt encoder_{0};
};

}  // namespace kvpool::io::detail
