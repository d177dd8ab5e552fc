// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/model/model_config.hpp>

#include "json_reader.hpp"
#include "layer_kinds.hpp"
#include "model_fields.hpp"
#include "quantization.hpp"

#include <vector>

namespace kvpool::io::detail {

/// Counts parameters from the config: embeddings, attention, recurrent and MLP layers, experts and
/// next-token layers of the text model. What the config does not say is left out and named in
/// `basis`.
/// @param model layers, next-token layers, drafter and native type are already filled in
[[nodiscard]] ParameterEstimate estimate_parameters(const JsonReader& config,
                                                    const ModelFields& fields,
                                                    const LayerKinds& kinds,
                                                    const WeightFormat& format,
                                                    const ModelConfig& model);

}  // namespace kvpool::io::detail
