// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/solve/engine_advice.hpp>

#include <kvpool/core/checked.hpp>
#include <kvpool/core/size_text.hpp>

#include "core/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kvpool {
namespace {

/// Less than this share of a request's charge is not worth a line.
constexpr std::int64_t kWorthOneIn = 100;
/// The line of the account that vLLM's empty places make.
constexpr std::string_view kPaddingLine = "padding_layers";

/// The line of a request's account, or 0.
Bytes line_of(const EnginePrediction& prediction, std::string_view name) {
  const auto found = std::ranges::find(prediction.request_account, name, &EngineLine::name);
  return found == prediction.request_account.end() ? Bytes{0} : found->bytes;
}

Bytes charge_of(const EnginePrediction& prediction) {
  return EnginePrediction::total(prediction.request_account);
}

/// A change of the deployment that may pad less.
struct Candidate {
  std::string change;
  std::string cost;
  EngineRequest request;
};

std::vector<Candidate> candidates_of(const EngineRequest& request) {
  std::vector<Candidate> out;
  if (request.drafter.has_value()) {
    Candidate& alone =
        out.emplace_back(Candidate{.change = "no --drafter",
                                   .cost = "nothing is drafted; its own layers are counted in",
                                   .request = request});
    alone.request.drafter.reset();
  }
  if (request.settings.hybrid_kv_manager) {
    Candidate& flat =
        out.emplace_back(Candidate{.change = "--engine-option hybrid_kv_manager=false",
                                   .cost = "windows and chunks are kept in full",
                                   .request = request});
    flat.request.settings.hybrid_kv_manager = false;
  }
  return out;
}

std::string padding_text(const EnginePrediction& prediction, Bytes padding, Bytes charge) {
  std::int64_t empty = 0;
  std::int64_t used = 0;
  for (const EngineGroup& group : prediction.groups) {
    empty += group.padding_layers;
    used += group.layers;
  }
  return fmt::format(
      "{} deals its layers out to {} groups of equal size, which leaves {} empty places beside {} "
      "layers: {} of the {} that a request is charged",
      to_string(prediction.engine), prediction.groups.size(), empty, used, size_text(padding),
      size_text(charge));
}

}  // namespace

std::vector<Advice> advise_engine(const EngineRequest& request, const EnginePrediction& prediction,
                                  Sequences sequences, const CapabilityRegistry& registry) {
  const Bytes padding = line_of(prediction, kPaddingLine);
  const Bytes charge = charge_of(prediction);
  if (padding.count() <= 0 || padding.count() < charge.count() / kWorthOneIn) {
    return {};
  }
  const auto of_all = [sequences](Bytes one) {
    return Bytes{(CheckedInt{one.count()} * sequences.count()).saturated()};
  };
  Advice advice{.id = "padding_layers",
                .what = padding_text(prediction, padding, charge),
                .frees = of_all(padding)};
  Bytes most{0};
  for (Candidate& candidate : candidates_of(request)) {
    const auto changed = predict_engine(candidate.request, registry);
    if (!changed || changed->request_account.empty() ||
        line_of(*changed, kPaddingLine) >= padding) {
      continue;
    }
    if (const Bytes freed = charge - charge_of(*changed); freed > most) {
      most = freed;
      advice.change = std::move(candidate.change);
      advice.cost = std::move(candidate.cost);
      advice.frees = of_all(freed);
    }
  }
  return {std::move(advice)};
}

}  // namespace kvpool
