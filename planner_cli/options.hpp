// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exit_codes.hpp"
#include "option_names.hpp"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::cli {

/// One value as it was given, and where.
struct GivenValue {
  /// The text.
  std::string text;
  /// Deployment file it stands in; empty for the command line.
  std::string file;
  /// Line and column in the file.
  std::string place;

  /// Throws: a usage failure for the command line, an input error with its place for a file.
  [[noreturn]] void fail(const OptionSpec& option, const std::string& message) const;
};

/// What was asked for, before any value is understood.
struct Options {
  /// The command.
  Command command = Command::kPlan;
  /// MODEL or PLAN.json.
  std::string input;
  /// The second argument of commands that take two.
  std::string second_input = {};
  /// Options and their values; a flag has one value, `true`.
  std::map<OptionId, std::vector<GivenValue>> values;

  /// True if a flag is on.
  [[nodiscard]] bool flag(OptionId id) const;
  /// The value of an option, or null.
  [[nodiscard]] const GivenValue* find(OptionId id) const;
};

/// Outcome of reading the command line: options, or a text that ends the program with success.
struct CommandLine {
  /// The options, when `text` is empty.
  Options options;
  /// Help or version, for standard output.
  std::string text;
};

/// Reads a command line without the program's name. Throws a usage `Failure`.
[[nodiscard]] CommandLine read_command_line(std::span<const std::string_view> arguments);

}  // namespace kvpool::cli
