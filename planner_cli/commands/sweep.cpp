// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/commands.hpp"
#include "commands/sweep_report.hpp"
#include "output/progress.hpp"
#include "output/terminal.hpp"
#include "request.hpp"
#include "spelling.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

namespace kvpool::cli {
namespace {

enum class SweepFormat { kTable, kCsv, kJson, kSvg };

constexpr std::array<std::string_view, 4> kFormats{"table", "csv", "json", "svg"};
/// More threads than this are a mistake.
constexpr std::int64_t kMostThreads = 1024;

[[nodiscard]] SweepFormat asked_format(const Options& options) {
  const GivenValue* given = options.find(OptionId::kFormat);
  if (given == nullptr) {
    return options.flag(OptionId::kJson) ? SweepFormat::kJson : SweepFormat::kTable;
  }
  const auto* const found = std::ranges::find(kFormats, given->text);
  if (found == kFormats.end()) {
    given->fail(option_spec(OptionId::kFormat), "unknown format '" + given->text + "'" +
                                                    did_you_mean(given->text, kFormats) +
                                                    "; there are " + joined(kFormats));
  }
  const auto format = static_cast<SweepFormat>(found - kFormats.begin());
  if (options.flag(OptionId::kJson) && format != SweepFormat::kJson) {
    given->fail(option_spec(OptionId::kFormat), "--json is given, too");
  }
  return format;
}

[[nodiscard]] std::size_t asked_threads(const Options& options) {
  const auto jobs = read_whole_number(options, OptionId::kJobs, 1);
  const std::int64_t usual = std::max(std::thread::hardware_concurrency(), 1U);
  return static_cast<std::size_t>(std::min(jobs.value_or(usual), kMostThreads));
}

/// What a sweep is about: the model's name, without the folder it stands in.
[[nodiscard]] std::string title_of(const Options& options) {
  const std::filesystem::path path{options.input};
  std::string name = path.filename().string();
  if (name == "config.json") {
    name = path.parent_path().filename().string();
  }
  if (name.ends_with(".json")) {
    name.resize(name.size() - std::string_view{".json"}.size());
  }
  return name.empty() ? "kvplan sweep" : name;
}

}  // namespace

ExitCode run_sweep(const Options& options) {
  const SweepFormat format = asked_format(options);
  Sweep sweep{.axes = read_axes(options), .points = {}, .title = title_of(options)};
  const bool sweeps_models = std::ranges::any_of(
      sweep.axes, [](const SweepAxis& axis) { return !axis.option.has_value(); });
  if (options.input.empty() && !sweeps_models) {
    throw usage_failure("MODEL is missing; --over model=A,B sweeps over several");
  }
  if (!sweeps_models) {
    InputCache inputs;
    (void)inputs.model(options.input);  // a model that cannot be read fails once, not at each point
  }
  const CapabilityRegistry registry = read_registry(options);
  {
    ProgressBar bar{point_count(sweep.axes)};
    sweep.points = run_points(options, sweep.axes, registry, asked_threads(options),
                              [&bar](std::size_t done) { bar.show(done); });
  }
  switch (format) {
    case SweepFormat::kTable: {
      Report report{use_colour()};
      report_sweep(sweep, report);
      print(report.text());
      break;
    }
    case SweepFormat::kCsv: print(csv_of(sweep)); break;
    case SweepFormat::kJson: print(json_of(sweep)); break;
    case SweepFormat::kSvg: print(svg_of(sweep, options)); break;
  }
  const bool some_fit = std::ranges::any_of(sweep.points, &SweepPoint::fits);
  const bool some_lack_bytes = std::ranges::any_of(
      sweep.points, [](const SweepPoint& point) { return point.missing.count() > 0; });
  if (some_fit) {
    return ExitCode::kFits;
  }
  return some_lack_bytes ? ExitCode::kDoesNotFit : ExitCode::kBadInput;
}

}  // namespace kvpool::cli
