// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "output/report.hpp"

#include <algorithm>
#include <utility>

namespace kvpool::cli {
namespace {

/// Columns between two columns of a table.
constexpr std::size_t kGap = 2;
/// A wrapped column gets at least this width.
constexpr std::size_t kNarrowest = 24;

[[nodiscard]] std::string_view escape_of(Emphasis emphasis) noexcept {
  switch (emphasis) {
    case Emphasis::kHeading: return "\x1b[1m";
    case Emphasis::kGood: return "\x1b[1;32m";
    case Emphasis::kBad: return "\x1b[1;31m";
    case Emphasis::kNotice: return "\x1b[33m";
    case Emphasis::kPlain: return {};
  }
  return {};
}

void trim_end(std::string& line) { line.erase(line.find_last_not_of(' ') + 1); }

[[nodiscard]] std::string padded(const std::string& cell, std::size_t width, Align align) {
  const std::string space(width > cell.size() ? width - cell.size() : 0, ' ');
  return align == Align::kRight ? space + cell : cell + space;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out{text};
  std::ranges::replace_if(out, [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      trim_end(line);
      lines.push_back(std::exchange(line, {}));
    }
    line.append(line.empty() ? "" : " ").append(word);
  }
  trim_end(line);
  lines.push_back(std::move(line));
  return lines;
}

void Table::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) {
    cell = printable(cell);
  }
  rows_.push_back(std::move(cells));
}

std::vector<std::string> Table::lines(std::size_t indent) const {
  std::vector<std::vector<std::string>> rows;
  if (std::ranges::any_of(columns_, [](const Column& column) { return !column.title.empty(); })) {
    auto& titles = rows.emplace_back();
    std::ranges::transform(columns_, std::back_inserter(titles), &Column::title);
  }
  rows.insert(rows.end(), rows_.begin(), rows_.end());
  std::vector<std::size_t> widths(columns_.size());
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < widths.size(); ++c) {
      widths[c] = std::max(widths[c], row[c].size());
    }
  }
  const std::size_t last = columns_.size() - 1;
  std::size_t used = indent;
  for (std::size_t c = 0; c < last; ++c) {
    used += widths[c] + kGap;
  }
  const std::size_t room = kReportWidth > used + kNarrowest ? kReportWidth - used : kNarrowest;
  std::vector<std::string> out;
  for (const auto& row : rows) {
    std::string line(indent, ' ');
    for (std::size_t c = 0; c < last; ++c) {
      line += padded(row[c], widths[c], columns_[c].align) + std::string(kGap, ' ');
    }
    const auto parts = columns_[last].align == Align::kRight
                           ? std::vector{padded(row[last], widths[last], Align::kRight)}
                           : wrapped(row[last], room);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      std::string whole = (part == 0 ? line : std::string(used, ' ')) + parts[part];
      trim_end(whole);
      out.push_back(std::move(whole));
    }
  }
  return out;
}

void Report::put(std::string_view text, Emphasis emphasis) {
  const std::string_view escape = colour_ ? escape_of(emphasis) : std::string_view{};
  text_.append(escape).append(text).append(escape.empty() ? "" : "\x1b[0m").append("\n");
}

void Report::line(std::string_view text, std::size_t indent, std::size_t hanging,
                  Emphasis emphasis) {
  const std::size_t start = std::max(indent, hanging);
  const auto lines = wrapped(printable(text), kReportWidth - start);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    put(std::string(i == 0 ? indent : start, ' ') + lines[i], emphasis);
  }
}

void Report::heading(std::string_view text) {
  blank();
  put(printable(text), Emphasis::kHeading);
}

void Report::table(const Table& table, std::size_t indent) {
  const auto lines = table.lines(indent);
  for (const std::string& line : lines) {
    put(line, Emphasis::kPlain);
  }
}

}  // namespace kvpool::cli
