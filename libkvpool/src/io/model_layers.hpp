// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/model/model_config.hpp>

#include "json_reader.hpp"
#include "layer_kinds.hpp"
#include "model_fields.hpp"

#include <vector>

namespace kvpool::io::detail {

/// Builds what each layer keeps from its kind.
[[nodiscard]] std::vector<ModelLayer> build_layers(const JsonReader& config,
                                                   const ModelFields& fields,
                                                   const LayerKinds& kinds, FactLog& facts);

/// Next-token (MTP) layers of a model.
struct MtpLayers {
  /// Caches of one of them.
  std::vector<LayerCache> caches;
  /// How many there are.
  Layers count;
};

/// Reads how many next-token layers there are; each copies the target's attention layer unless the
/// config lists their kinds.
[[nodiscard]] MtpLayers build_mtp_layers(const JsonReader& config, const ModelFields& fields,
                                         const std::vector<ModelLayer>& layers, FactLog& facts);

}  // namespace kvpool::io::detail
