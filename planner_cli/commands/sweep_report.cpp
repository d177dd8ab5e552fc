// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "commands/sweep_report.hpp"

#include "output/json_writer.hpp"
#include "output/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kvpool::cli {
namespace {

/// A value as a field of a CSV line.
[[nodiscard]] std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) {
    return text;
  }
  std::string quoted{"\""};
  for (const char c : text) {
    quoted += c == '"' ? "\"\"" : std::string(1, c);
  }
  return quoted + '"';
}

/// Whether a point was planned at all.
[[nodiscard]] bool has_pools(const SweepPoint& point) noexcept {
  return point.fits || point.refusal == "does_not_fit";
}

}  // namespace

void report_sweep(const Sweep& sweep, Report& report) {
  constexpr std::size_t kOwnColumns = 6;
  std::vector<Column> columns;
  columns.reserve(sweep.axes.size() + kOwnColumns);
  for (const SweepAxis& axis : sweep.axes) {
    columns.push_back({axis.name, axis.numbers.empty() ? Align::kLeft : Align::kRight});
  }
  for (const char* title : {"KV budget", "a token", "tokens", "sequences", "max len"}) {
    columns.push_back({title, Align::kRight});
  }
  columns.push_back({"fits"});
  Table table{std::move(columns)};
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const SweepPoint& point = sweep.points[i];
    std::vector<std::string> cells;
    cells.reserve(sweep.axes.size() + kOwnColumns);
    const std::vector<std::size_t> indices = indices_of(sweep.axes, i);
    for (std::size_t axis = 0; axis < sweep.axes.size(); ++axis) {
      cells.push_back(sweep.axes[axis].values[indices[axis]]);
    }
    if (has_pools(point)) {
      cells.push_back(short_size(point.kv_budget));
      cells.push_back(bytes_text(point.bytes_per_token));
      cells.push_back(count_text(point.capacity.tokens.count()));
      cells.push_back(count_text(point.capacity.sequences.count()));
      cells.push_back(count_text(point.capacity.max_len.count()));
      cells.push_back(point.fits ? "yes" : "no, " + short_size(point.missing) + " missing");
    } else {
      cells.insert(cells.end(), 5, "-");
      cells.push_back(point.refusal + ": " + point.reason);
    }
    table.row(std::move(cells));
  }
  report.table(table, 0);
}

std::string csv_of(const Sweep& sweep) {
  std::string out;
  for (const SweepAxis& axis : sweep.axes) {
    out += csv_field(axis.name) + ",";
  }
  out +=
      "fits,kv_budget_bytes,bytes_per_token,tokens,sequences,max_len,missing_bytes,refusal,"
      "reason\n";
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const SweepPoint& point = sweep.points[i];
    const std::vector<std::size_t> indices = indices_of(sweep.axes, i);
    for (std::size_t axis = 0; axis < sweep.axes.size(); ++axis) {
      out += csv_field(sweep.axes[axis].values[indices[axis]]) + ",";
    }
    out += fmt::format("{},{},{},{},{},{},{},{},{}\n", point.fits, point.kv_budget.count(),
                       point.bytes_per_token.count(), point.capacity.tokens.count(),
                       point.capacity.sequences.count(), point.capacity.max_len.count(),
                       point.missing.count(), csv_field(point.refusal), csv_field(point.reason));
  }
  return out;
}

std::string json_of(const Sweep& sweep) {
  JsonWriter json;
  json.begin_object().text("schema", "kvpool.sweep/1").begin_array("over");
  for (const SweepAxis& axis : sweep.axes) {
    json.begin_object().text("option", axis.name).texts("values", axis.values).end_object();
  }
  json.end_array().begin_array("points");
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const SweepPoint& point = sweep.points[i];
    const std::vector<std::size_t> indices = indices_of(sweep.axes, i);
    json.begin_object().begin_object("options");
    for (std::size_t axis = 0; axis < sweep.axes.size(); ++axis) {
      json.text(sweep.axes[axis].name, sweep.axes[axis].values[indices[axis]]);
    }
    json.end_object()
        .boolean("fits", point.fits)
        .number("kv_budget_bytes", point.kv_budget.count())
        .number("bytes_per_token", point.bytes_per_token.count())
        .begin_object("capacity")
        .number("tokens", point.capacity.tokens.count())
        .number("sequences", point.capacity.sequences.count())
        .number("max_len", point.capacity.max_len.count())
        .end_object()
        .number("missing_bytes", point.missing.count())
        .text("refusal", point.refusal)
        .text("reason", point.reason)
        .end_object();
  }
  return json.end_array().end_object().document();
}

}  // namespace kvpool::cli
