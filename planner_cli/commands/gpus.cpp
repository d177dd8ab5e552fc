// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/commands.hpp"
#include "output/json_writer.hpp"
#include "output/numbers.hpp"
#include "output/report.hpp"
#include "output/terminal.hpp"
#include "request.hpp"
#include "spelling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace kvpool::cli {
namespace {

constexpr std::int64_t kGigabyte = 1'000'000'000;

/// The GPUs to show: one of each name, the last, whose names contain what was asked for.
[[nodiscard]] std::vector<DeviceSpec> asked_devices(const Options& options) {
  std::vector<DeviceSpec> shown;
  for (DeviceSpec& device : read_devices(options)) {
    if (!contains_loosely(device.name, options.input)) {
      continue;
    }
    const auto same = std::ranges::find(shown, device.name, &DeviceSpec::name);
    if (same == shown.end()) {
      shown.push_back(std::move(device));
    } else {
      *same = std::move(device);
    }
  }
  return shown;
}

[[nodiscard]] std::string document(const std::vector<DeviceSpec>& devices) {
  JsonWriter json;
  json.begin_object().text("schema", "kvpool.gpus/1").begin_array("gpus");
  for (const DeviceSpec& device : devices) {
    json.begin_object()
        .text("name", device.name)
        .text("architecture", device.architecture)
        .number("marketed_bytes", device.marketed.count())
        .number("nvidia_smi_bytes", device.nvidia_smi.count())
        .number("cuda_visible_low_bytes", device.cuda_visible_low.count())
        .number("cuda_visible_high_bytes", device.cuda_visible_high.count())
        .number("bandwidth_gb_per_s", device.bandwidth_gb_per_s)
        .number("granularity_bytes", device.granularity.count())
        .text("note", device.note)
        .end_object();
  }
  json.end_array().end_object();
  return json.document();
}

[[nodiscard]] std::string seen_text(const DeviceSpec& device) {
  const std::string low = gib_number(device.cuda_visible_low);
  const std::string high = gib_number(device.cuda_visible_high);
  return low == high ? low : low + " - " + high;
}

}  // namespace

ExitCode run_gpus(const Options& options) {
  const std::vector<DeviceSpec> devices = asked_devices(options);
  if (options.flag(OptionId::kJson)) {
    print(document(devices));
    return ExitCode::kFits;
  }
  Report report{use_colour()};
  report.line(
      "Plans count with what a CUDA process sees, the smallest published value. Marketed GB are "
      "10^9 bytes.",
      0, 0);
  report.blank();
  Table table{{{"name"},
               {"sold as", Align::kRight},
               {"smi GiB", Align::kRight},
               {"a process sees, GiB", Align::kRight},
               {"GB/s", Align::kRight},
               {"architecture"},
               {"note"}}};
  for (const DeviceSpec& device : devices) {
    table.row(
        {device.name,
         device.marketed.count() == 0 ? ""
                                      : fmt::format("{} GB", device.marketed.count() / kGigabyte),
         device.nvidia_smi.count() == 0 ? "" : gib_number(device.nvidia_smi), seen_text(device),
         device.bandwidth_gb_per_s == 0 ? "" : count_text(device.bandwidth_gb_per_s),
         device.architecture, device.note});
  }
  report.table(table, 0);
  print(report.text());
  return ExitCode::kFits;
}

}  // namespace kvpool::cli
