// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "engine/prediction_builder.hpp"

#include <algorithm>
#include <utility>

namespace kvpool::detail {

void PredictionBuilder::count(FigureKey key, CheckedInt value) {
  out_.figures.push_back({.key = key, .value = narrow(value)});
}

void PredictionBuilder::real(FigureKey key, double value) {
  out_.figures.push_back({.key = key, .value = value});
}

void PredictionBuilder::size(FigureKey key, CheckedInt bytes) {
  out_.figures.push_back({.key = key, .value = Bytes{narrow(bytes)}});
}

void PredictionBuilder::range(FigureKey key, CheckedInt low, CheckedInt high,
                              std::int64_t scale_ppm, bool holds_low) {
  out_.figures.push_back({.key = key,
                          .value = PrintedRange{.low = narrow(low),
                                                .high = narrow(high),
                                                .scale_ppm = scale_ppm,
                                                .holds_low = holds_low}});
}

void PredictionBuilder::request_line(std::string_view name, CheckedInt bytes, std::string reason) {
  add(out_.request_account, name, bytes, std::move(reason));
}

void PredictionBuilder::pool_line(std::string_view name, CheckedInt bytes, std::string reason) {
  add(out_.pool_account, name, bytes, std::move(reason));
}

void PredictionBuilder::rule(std::string_view id, std::string value, std::string reason) {
  out_.rules.push_back(
      {.id = std::string{id}, .value = std::move(value), .reason = std::move(reason)});
}

void PredictionBuilder::add(std::vector<EngineLine>& account, std::string_view name,
                            CheckedInt bytes, std::string reason) {
  if (const std::int64_t exact = narrow(bytes); exact != 0) {
    account.push_back(
        {.name = std::string{name}, .bytes = Bytes{exact}, .reason = std::move(reason)});
  }
}

std::int64_t PredictionBuilder::narrow(CheckedInt value) {
  const auto exact = value.to_int64();
  overflowed_ = overflowed_ || !exact.has_value();
  return exact.value_or(0);
}

Result<EnginePrediction> PredictionBuilder::take() && {
  if (overflowed_) {
    return Error{.code = ErrorCode::kOutOfRange,
                 .message = "a size of the prediction does not fit into 64 bits",
                 .key = "given"};
  }
  std::ranges::sort(out_.figures, {}, &EngineFigure::key);  // each key once
  return std::move(out_);
}

}  // namespace kvpool::detail
