// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kvpool::cli {

/// One point of a line.
struct ChartPoint {
  /// Along the bottom: a number, or the index of a category.
  double x = 0;
  /// Upwards.
  double y = 0;
  /// Drawn hollow when false.
  bool solid = true;
};

/// One line.
struct ChartSeries {
  /// Its name in the legend; empty when there is one line only.
  std::string name;
  /// Its points, by ascending x.
  std::vector<ChartPoint> points;
};

/// Longer lines are drawn without marks, so that nothing of them is hollow.
inline constexpr std::size_t kMostMarks = 60;

/// Units in which the numbers of an axis are written.
enum class ChartUnit {
  kPlain,  ///< 1.5k, 2M
  kBytes,  ///< KiB, MiB, GiB
  kShare,  ///< millionths as a fraction
};

/// A chart with lines.
struct Chart {
  /// Heading.
  std::string title;
  /// Second line, smaller.
  std::string subtitle;
  /// Name of the bottom axis.
  std::string x_label;
  /// Name of the left axis.
  std::string y_label;
  /// Names of x = 0, 1, ... when the bottom axis has categories and no numbers.
  std::vector<std::string> categories;
  /// Unit of the bottom axis.
  ChartUnit x_unit = ChartUnit::kPlain;
  /// Unit of the left axis.
  ChartUnit y_unit = ChartUnit::kPlain;
  /// The lines.
  std::vector<ChartSeries> series;
};

/// A chart as an SVG document of its own: no scripts, no fonts, nothing to load. It brings its
/// background along and has a second set of colours for viewers that ask for a dark one, so that it
/// is readable on both. Lines are told apart by colour, and by dashes from the ninth on. An axis is
/// logarithmic when its numbers are all positive and reach over more than a factor of 16 (bottom)
/// or 100 (left). The same chart gives the same text.
[[nodiscard]] std::string svg_of(const Chart& chart);

}  // namespace kvpool::cli
