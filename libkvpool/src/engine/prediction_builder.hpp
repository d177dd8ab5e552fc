// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/checked.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/engine/engine_prediction.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::detail {

/// A count that an engine reckons in double precision, cut to a whole number; the nearest end of
/// the 64-bit range beyond it. @pre `value` is not negative
[[nodiscard]] constexpr std::int64_t whole_count(double value) noexcept {
  constexpr double kEnd = 9223372036854774784.0;  // the largest double below 2^63
  return value < kEnd ? static_cast<std::int64_t>(value) : static_cast<std::int64_t>(kEnd);
}

/// Collects a prediction. Sizes that do not fit into 64 bits are remembered and asked for once, at
/// the end.
class PredictionBuilder {
 public:
  explicit PredictionBuilder(Engine engine) { out_.engine = engine; }

  /// A whole number.
  void count(FigureKey key, CheckedInt value);
  /// A decimal number.
  void real(FigureKey key, double value);
  /// A size.
  void size(FigureKey key, CheckedInt bytes);
  /// A range of sizes.
  void range(FigureKey key, CheckedInt low, CheckedInt high, std::int64_t scale_ppm,
             bool holds_low);
  /// A line of the account of one request; lines of 0 bytes are left out.
  void request_line(std::string_view name, CheckedInt bytes, std::string reason);
  /// A line of the account of the pool; lines of 0 bytes are left out.
  void pool_line(std::string_view name, CheckedInt bytes, std::string reason);
  /// A rule or default.
  void rule(std::string_view id, std::string value, std::string reason);
  /// A group of layers.
  void group(EngineGroup group) { out_.groups.push_back(std::move(group)); }

  /// The prediction, figures in the order of their keys; an error when something overflowed.
  [[nodiscard]] Result<EnginePrediction> take() &&;

 private:
  std::int64_t narrow(CheckedInt value);
  void add(std::vector<EngineLine>& account, std::string_view name, CheckedInt bytes,
           std::string reason);

  EnginePrediction out_;
  bool overflowed_ = false;
};

}  // namespace kvpool::detail
