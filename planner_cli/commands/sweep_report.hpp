// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "options.hpp"
#include "output/report.hpp"
#include "sweep_axes.hpp"
#include "sweep_run.hpp"

#include <span>
#include <string>
#include <vector>

namespace kvpool::cli {

/// A sweep with what became of it.
struct Sweep {
  /// What was varied.
  std::vector<SweepAxis> axes;
  /// Results, the last axis varying fastest.
  std::vector<SweepPoint> points;
  /// Heading of a chart: the model.
  std::string title;
};

/// A table for people.
void report_sweep(const Sweep& sweep, Report& report);

/// Comma-separated values with a line of titles; RFC 4180 but for the line breaks, which are `\n`.
[[nodiscard]] std::string csv_of(const Sweep& sweep);

/// A `kvpool.sweep/1` document.
[[nodiscard]] std::string json_of(const Sweep& sweep);

/// A chart of one figure over one axis, the others told apart by lines. Throws a usage `Failure`
/// for an unknown `--x` or `--y`.
[[nodiscard]] std::string svg_of(const Sweep& sweep, const Options& options);

}  // namespace kvpool::cli
