// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/engine/engine_prediction.hpp>
#include <kvpool/engine/engine_request.hpp>

namespace kvpool::detail {

/// vLLM. @pre the request's numbers are in their ranges, here and below
[[nodiscard]] Result<EnginePrediction> predict_vllm(const EngineRequest& request);

/// SGLang.
[[nodiscard]] Result<EnginePrediction> predict_sglang(const EngineRequest& request);

/// TensorRT-LLM.
[[nodiscard]] Result<EnginePrediction> predict_trtllm(const EngineRequest& request,
                                                      const CapabilityRegistry& registry);

/// llama.cpp and ik_llama.cpp.
[[nodiscard]] Result<EnginePrediction> predict_llamacpp(const EngineRequest& request);

}  // namespace kvpool::detail
