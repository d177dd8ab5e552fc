// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/sweep_report.hpp"
#include "exit_codes.hpp"
#include "output/svg_chart.hpp"
#include "spelling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

namespace kvpool::cli {
namespace {

/// A figure that can be drawn.
struct ChartFigure {
  std::string_view name;
  std::string_view label;
  ChartUnit unit;
  std::int64_t (*value)(const SweepPoint& point);
};

constexpr auto kFigures = std::to_array<ChartFigure>({
    {"tokens", "tokens that fit", ChartUnit::kPlain,
     [](const SweepPoint& p) { return p.capacity.tokens.count(); }},
    {"sequences", "sequences that fit", ChartUnit::kPlain,
     [](const SweepPoint& p) { return p.capacity.sequences.count(); }},
    {"max-len", "longest sequence that fits, tokens", ChartUnit::kPlain,
     [](const SweepPoint& p) { return p.capacity.max_len.count(); }},
    {"kv-budget", "KV budget of a GPU", ChartUnit::kBytes,
     [](const SweepPoint& p) { return std::max<std::int64_t>(p.kv_budget.count(), 0); }},
    {"bytes-per-token", "bytes of one token on a GPU", ChartUnit::kBytes,
     [](const SweepPoint& p) { return p.bytes_per_token.count(); }},
    {"missing", "bytes missing on a GPU", ChartUnit::kBytes,
     [](const SweepPoint& p) { return p.missing.count(); }},
});

[[nodiscard]] const ChartFigure& asked_figure(const Options& options) {
  const GivenValue* given = options.find(OptionId::kChartY);
  if (given == nullptr) {
    return kFigures.front();
  }
  std::string name = given->text;
  std::ranges::replace(name, '_', '-');
  const auto* const found = std::ranges::find(kFigures, name, &ChartFigure::name);
  if (found == kFigures.end()) {
    std::vector<std::string_view> names;
    std::ranges::transform(kFigures, std::back_inserter(names), &ChartFigure::name);
    given->fail(option_spec(OptionId::kChartY), "no figure '" + given->text + "'" +
                                                    did_you_mean(name, names) + "; there are " +
                                                    joined(names));
  }
  return *found;
}

/// The axis along the bottom: the one asked for, else that with the most numbers.
[[nodiscard]] std::size_t asked_axis(const Sweep& sweep, const Options& options) {
  const GivenValue* given = options.find(OptionId::kChartX);
  if (given == nullptr) {
    const auto most = std::ranges::max_element(
        sweep.axes, {}, [](const SweepAxis& axis) { return axis.numbers.size(); });
    return static_cast<std::size_t>(most - sweep.axes.begin());
  }
  const OptionSpec* spec = find_option(given->text, Command::kSweep);
  const std::string name{spec == nullptr ? std::string_view{given->text} : spec->spellings[0]};
  const auto found = std::ranges::find(sweep.axes, name, &SweepAxis::name);
  if (found == sweep.axes.end()) {
    given->fail(option_spec(OptionId::kChartX), "'" + given->text + "' is not swept (--over)");
  }
  return static_cast<std::size_t>(found - sweep.axes.begin());
}

[[nodiscard]] ChartUnit unit_of(const SweepAxis& axis) {
  if (axis.option == OptionId::kGpuMemoryUtilization) {
    return ChartUnit::kShare;
  }
  const bool is_size = axis.option == OptionId::kGpuMemory || axis.option == OptionId::kKvBudget ||
                       axis.option == OptionId::kWeights || axis.option == OptionId::kOverhead ||
                       axis.option == OptionId::kGranularity;
  return is_size ? ChartUnit::kBytes : ChartUnit::kPlain;
}

/// A value for a chart: of a path the last part, which tells models and drafters apart.
[[nodiscard]] std::string shown(const SweepAxis& axis, const std::string& value) {
  const bool is_path = !axis.option.has_value() || axis.option == OptionId::kDrafter;
  if (!is_path) {
    return value;
  }
  std::string_view name = value;
  if (name.ends_with("/config.json")) {
    name.remove_suffix(std::string_view{"/config.json"}.size());
  }
  name.remove_prefix(name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1);
  if (name.ends_with(".json")) {
    name.remove_suffix(std::string_view{".json"}.size());
  }
  return std::string{name};
}

/// `tp 4, bf16`: a name for the values of the axes that are not drawn along the bottom.
[[nodiscard]] std::string line_name(const Sweep& sweep, const std::vector<std::size_t>& indices,
                                    std::size_t bottom) {
  std::string name;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    if (i != bottom && sweep.axes[i].values.size() > 1) {
      const SweepAxis& axis = sweep.axes[i];
      name += (name.empty() ? "" : ", ") + (axis.numbers.empty() ? "" : axis.name + " ") +
              shown(axis, axis.values[indices[i]]);
    }
  }
  return name;
}

}  // namespace

std::string svg_of(const Sweep& sweep, const Options& options) {
  const ChartFigure& figure = asked_figure(options);
  const std::size_t bottom = asked_axis(sweep, options);
  const SweepAxis& axis = sweep.axes[bottom];
  Chart chart{.title = sweep.title,
              .subtitle = {},
              .x_label = axis.name,
              .y_label = std::string{figure.label},
              .categories = {},
              .x_unit = unit_of(axis),
              .y_unit = figure.unit,
              .series = {}};
  if (axis.numbers.empty()) {
    std::ranges::transform(axis.values, std::back_inserter(chart.categories),
                           [&axis](const std::string& value) { return shown(axis, value); });
  }
  std::map<std::string, std::size_t> lines;
  std::size_t refused = 0;
  std::size_t hollow = 0;
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const SweepPoint& point = sweep.points[i];
    const std::vector<std::size_t> indices = indices_of(sweep.axes, i);
    const std::string name = line_name(sweep, indices, bottom);
    const auto [line, is_new] = lines.try_emplace(name, chart.series.size());
    if (is_new) {
      chart.series.push_back({.name = name, .points = {}});
    }
    if (!point.fits && point.refusal != "does_not_fit") {
      ++refused;
      continue;
    }
    hollow += point.fits ? 0 : 1;
    const std::size_t at = indices[bottom];
    chart.series[line->second].points.push_back(
        {.x = axis.numbers.empty() ? static_cast<double>(at) : axis.numbers[at],
         .y = static_cast<double>(figure.value(point)),
         .solid = point.fits});
  }
  for (ChartSeries& series : chart.series) {
    std::ranges::sort(series.points, {},
                      [](const ChartPoint& point) { return std::pair{point.x, point.y}; });
  }
  chart.subtitle = fmt::format("{} over {}", figure.label, axis.name);
  if (hollow > 0) {
    chart.subtitle += axis.values.size() > kMostMarks
                          ? fmt::format("; at {} points the asked sequences do not fit", hollow)
                          : "; hollow: the asked sequences do not fit";
  }
  if (refused > 0) {
    chart.subtitle +=
        fmt::format("; {} refused point{} left out", refused, refused == 1 ? "" : "s");
  }
  return svg_of(chart);
}

}  // namespace kvpool::cli
