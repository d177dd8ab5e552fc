// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::cli {

/// Widest line of a report.
inline constexpr std::size_t kReportWidth = 120;

/// On which side a column is flush.
enum class Align { kLeft, kRight };

/// A column: its title and its flush side.
struct Column {
  /// Heading; may be empty.
  std::string title;
  /// Flush side.
  Align align = Align::kLeft;
};

/// Rows under titles. The last column is wrapped where the line would get too long.
class Table {
 public:
  /// Without rows.
  explicit Table(std::vector<Column> columns) : columns_{std::move(columns)} {}

  /// Adds a row; missing cells are empty.
  void row(std::vector<std::string> cells);
  /// True without rows.
  [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
  /// Lines, each ended; the first is the titles unless all are empty.
  [[nodiscard]] std::vector<std::string> lines(std::size_t indent) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// How a line stands out on a terminal.
enum class Emphasis { kPlain, kHeading, kGood, kBad, kNotice };

/// Text for people: plain ASCII lines of at most `kReportWidth` columns where words allow. Whatever
/// is not printable ASCII is shown as `?`, so that text from files cannot steer a terminal.
class Report {
 public:
  /// @param colour mark emphasis with escape sequences
  explicit Report(bool colour) : colour_{colour} {}

  /// A paragraph, wrapped; further lines start at `hanging`.
  void line(std::string_view text, std::size_t indent = 0, std::size_t hanging = 0,
            Emphasis emphasis = Emphasis::kPlain);
  /// An empty line and a title.
  void heading(std::string_view text);
  /// An empty line.
  void blank() { text_ += '\n'; }
  /// A table.
  void table(const Table& table, std::size_t indent = 2);
  /// Everything so far.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  void put(std::string_view text, Emphasis emphasis);

  std::string text_;
  bool colour_;
};

/// `text` as printable ASCII.
[[nodiscard]] std::string printable(std::string_view text);

/// Breaks `text` at spaces into lines of at most `width` columns; longer words stand alone.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t width);

}  // namespace kvpool::cli
