// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/core/version.hpp>

#include "commands/commands.hpp"
#include "output/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace kvpool::cli {
namespace {

/// Text as troff shows it unchanged: no requests at the start of a line, hyphens that can be
/// copied.
[[nodiscard]] std::string troff(std::string_view text) {
  std::string out;
  bool line_starts = true;
  for (const char letter : text) {
    if (line_starts && (letter == '.' || letter == '\'')) {
      out += "\\&";
    }
    if (letter == '\\') {
      out += "\\e";
    } else if (letter == '-') {
      out += "\\-";
    } else {
      out += letter;
    }
    line_starts = letter == '\n';
  }
  return out;
}

/// Text that the help breaks into lines, on one.
[[nodiscard]] std::string one_line(std::string_view text) {
  std::string line{text};
  std::ranges::replace(line, '\n', ' ');
  return line;
}

/// Lines shown as they are.
[[nodiscard]] std::string verbatim(std::string_view text) {
  std::string out = ".EX\n" + troff(text);
  return out + (out.ends_with('\n') ? ".EE\n" : "\n.EE\n");
}

[[nodiscard]] std::string option_text(const OptionSpec& option) {
  std::string names;
  for (const std::string_view spelling : option.spellings) {
    if (spelling.empty()) {
      continue;
    }
    names += fmt::format(R"({}\fB\-\-{}\fR)", names.empty() ? "" : ", ", troff(spelling));
  }
  if (option.arity != Arity::kFlag) {
    names += fmt::format(" \\fI{}\\fR", troff(option.value));
  }
  std::string commands;
  for (const CommandSpec& command : command_specs()) {
    if (option.serves(command.command)) {
      commands.append(commands.empty() ? "" : ", ").append(command.name);
    }
  }
  return fmt::format(".TP\n{}\n{}.\n({})\n", names, troff(one_line(option.help)), troff(commands));
}

/// What a command takes besides options; in brackets what may be left out, as a model is that
/// stands in a deployment file.
[[nodiscard]] std::string arguments_text(const CommandSpec& command) {
  if (command.input.empty()) {
    return {};
  }
  const bool needed = command.command == Command::kVerify || command.command == Command::kDiff ||
                      command.command == Command::kLint || command.command == Command::kCompletion;
  std::string text = fmt::format("\\fI{}\\fR", command.input);
  text = needed ? " " + text : " [" + text + "]";
  if (!command.second_input.empty()) {
    text += fmt::format(" \\fI{}\\fR", command.second_input);
  }
  return text;
}

[[nodiscard]] std::string page() {
  std::string text = fmt::format(
      ".TH KVPLAN 1 \"\" \"kvpool {}\" \"User Commands\"\n"
      ".SH NAME\n"
      "kvplan \\- plan the KV\\-cache memory of an LLM inference engine\n"
      ".SH SYNOPSIS\n",
      troff(kVersion));
  for (const CommandSpec& command : command_specs()) {
    text += fmt::format("\\fBkvplan {}\\fR", command.name) + arguments_text(command);
    text += command.command == Command::kMan || command.command == Command::kCompletion
                ? "\n.br\n"
                : " [\\fIOPTIONS\\fR]\n.br\n";
  }
  text += ".SH DESCRIPTION\n" + verbatim(program_examples());
  text += ".SH COMMANDS\n";
  for (const CommandSpec& command : command_specs()) {
    text += fmt::format(".TP\n\\fB{}\\fR", command.name) + arguments_text(command);
    text += fmt::format("\n{}.\n", troff(command.summary));
    if (!command.input_help.empty()) {
      text += fmt::format("\\fI{}\\fR: {}.\n", command.input, troff(one_line(command.input_help)));
    }
    text += verbatim(command.examples);
  }
  text +=
      ".SH OPTIONS\nEvery option has one meaning, whatever it is spelled like; \\fB\\-tp 4\\fR "
      "and \\fB\\-\\-tensor_parallel_size=4\\fR are \\fB\\-\\-tp 4\\fR.\n";
  std::string_view group;
  for (const OptionSpec& option : option_specs()) {
    if (option.group != group) {
      group = option.group;
      text += fmt::format(".SS {}\n", troff(group));
    }
    text += option_text(option);
  }
  text +=
      ".SH ENVIRONMENT\n"
      ".TP\n\\fBHF_HUB_CACHE\\fR, \\fBHF_HOME\\fR, \\fBXDG_CACHE_HOME\\fR\n"
      "Where names of models are looked for first; else ~/.cache/huggingface/hub.\n"
      ".TP\n\\fBNO_COLOR\\fR\nNo colours, even on a terminal.\n";
  text += ".SH \"EXIT STATUS\"\n" + verbatim(exit_status_text());
  return text;
}

}  // namespace

ExitCode run_man(const Options& /*options*/) {
  print(page());
  return ExitCode::kFits;
}

}  // namespace kvpool::cli
