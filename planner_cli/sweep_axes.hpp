// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "options.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvpool::cli {

/// One option that a sweep varies.
struct SweepAxis {
  /// The option; nothing for MODEL.
  std::optional<OptionId> option{};
  /// Its name as written: `tp`, `max-model-len`, `model`.
  std::string name;
  /// Its values as the command line would have them.
  std::vector<std::string> values;
  /// The same as numbers, when all of them are some; else empty.
  std::vector<double> numbers;
};

/// The axes of `--over`, in order. A list is `a,b,c`; a range `FROM:TO:*FACTOR` or `FROM:TO:+STEP`
/// starts at FROM and ends at or before TO. `none` leaves the option out. Throws a usage `Failure`
/// for an option that cannot be swept, a value that is none, the same option twice, and for more
/// than a million points.
[[nodiscard]] std::vector<SweepAxis> read_axes(const Options& options);

/// Points of all axes together.
[[nodiscard]] std::size_t point_count(std::span<const SweepAxis> axes) noexcept;

/// The values of one point, by axis; the last axis varies fastest.
[[nodiscard]] std::vector<std::size_t> indices_of(std::span<const SweepAxis> axes,
                                                  std::size_t point);

/// The options of one point.
[[nodiscard]] Options options_of(const Options& options, std::span<const SweepAxis> axes,
                                 std::span<const std::size_t> indices);

}  // namespace kvpool::cli
