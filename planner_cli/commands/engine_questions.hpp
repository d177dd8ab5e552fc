// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/engine/engine_prediction.hpp>
#include <kvpool/engine/engine_request.hpp>
#include <kvpool/plan/memory_budget.hpp>
#include <kvpool/solve/advice.hpp>

#include "options.hpp"
#include "request.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvpool::cli {

/// What one engine would make of a deployment.
struct EngineAnswer {
  /// Whose arithmetic.
  Engine engine = Engine::kVllm;
  /// Release that was asked about, or empty.
  std::string version;
  /// From the device's total to the cache; empty when the question failed before.
  std::vector<LedgerLine> budget;
  /// The question.
  EngineRequest request;
  /// Longest request.
  Tokens length;
  /// What its layers need, without any engine's roundings.
  Bytes needed;
  /// The prediction, when there is one.
  std::optional<EnginePrediction> prediction;
  /// Why there is none.
  std::optional<Error> error;
  /// What costs memory in this engine and could be otherwise.
  std::vector<Advice> advice;

  /// Bytes for the cache; negative when the weights alone do not fit.
  [[nodiscard]] Bytes kv_budget() const noexcept;
  /// What the engine charges for one longest request, when that is predicted.
  [[nodiscard]] std::optional<Bytes> charged() const;
  /// True when the engine would start: one longest request fits.
  [[nodiscard]] bool fits() const;
};

/// Asks one engine. Throws a usage `Failure` for settings that mean nothing.
[[nodiscard]] EngineAnswer ask_engine(Engine engine, const Options& options,
                                      const Deployment& deployment);

}  // namespace kvpool::cli
