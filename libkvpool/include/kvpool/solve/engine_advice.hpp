// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/engine/engine_prediction.hpp>
#include <kvpool/engine/engine_request.hpp>
#include <kvpool/solve/advice.hpp>

#include <vector>

namespace kvpool {

/// Advice about what an engine would make of a deployment: `padding_layers`, the places of vLLM's
/// block ids that no layer uses. Every amount comes from predicting again with the change made;
/// where no change helps, `change` is empty and `frees` is what the padding takes. Pure.
/// @param request what was predicted; @param prediction its outcome. Without a length of requests
///   there is no advice
/// @param sequences how many of them are charged at the same time; amounts are for all of them
[[nodiscard]] std::vector<Advice> advise_engine(const EngineRequest& request,
                                                const EnginePrediction& prediction,
                                                Sequences sequences,
                                                const CapabilityRegistry& registry);

}  // namespace kvpool
