// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/device_spec.hpp>
#include <kvpool/core/kv_dtype.hpp>

#include "catalogue/catalogue.hpp"
#include "commands/commands.hpp"
#include "exit_codes.hpp"
#include "output/terminal.hpp"
#include "spelling.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

namespace kvpool::cli {
namespace {

constexpr std::string_view kFile = "@file";
constexpr std::string_view kModel = "@model";

[[nodiscard]] std::string all_commands() {
  std::string names;
  for (const CommandSpec& command : command_specs()) {
    names.append(names.empty() ? "" : " ").append(command.name);
  }
  return names;
}

/// The words that a value is completed with; empty for files and free text.
[[nodiscard]] std::string words_of_choices(std::string_view choices) {
  std::string words;
  const auto add = [&words](std::string_view word) {
    words.append(words.empty() ? "" : " ").append(word);
  };
  if (choices == kModel) {
    for (const std::string_view name : catalogue_names()) {
      add(name);
    }
  } else if (choices == "@gpu") {
    for (const DeviceSpec& device : known_devices()) {
      add(device.name);
    }
  } else if (choices == "@dtype") {
    add("auto");
    add("fp8");
    for (const KvDtype dtype : all_kv_dtypes()) {
      add(to_string(dtype));
    }
  } else if (choices != kFile) {
    words = choices;
  }
  return words;
}

[[nodiscard]] bool takes_files(std::string_view choices) {
  return choices == kFile || choices == kModel;
}

[[nodiscard]] std::vector<std::string_view> spellings(const OptionSpec& option) {
  std::vector<std::string_view> names;
  for (const std::string_view spelling : option.spellings) {
    if (!spelling.empty()) {
      names.push_back(spelling);
    }
  }
  return names;
}

/// The help's first line.
[[nodiscard]] std::string first_line(std::string_view help) {
  const std::size_t end = help.find('\n');
  std::string line{help.substr(0, end)};
  return end == std::string_view::npos ? line : line + " ...";
}

/// Text inside single quotes of a shell, with `extra` characters escaped by a backslash.
[[nodiscard]] std::string quoted(std::string_view text, std::string_view extra = {}) {
  std::string out;
  for (const char letter : text) {
    if (letter == '\'') {
      out += "'\\''";
      continue;
    }
    if (extra.find(letter) != std::string_view::npos) {
      out += '\\';
    }
    out += letter;
  }
  return out;
}

// ---------------------------------------------------------------------------------------- bash

[[nodiscard]] std::string bash_reply(std::string_view choices, std::string_view indent) {
  const std::string words = words_of_choices(choices);
  std::string text;
  if (!words.empty()) {
    text +=
        fmt::format("{}COMPREPLY=($(compgen -W '{}' -- \"$current\"))\n", indent, quoted(words));
  }
  if (takes_files(choices)) {
    text += fmt::format("{}COMPREPLY+=($(compgen -f -- \"$current\"))\n", indent);
    text += fmt::format("{}compopt -o filenames 2>/dev/null\n", indent);
  }
  return text;
}

[[nodiscard]] std::string bash_script() {
  std::string text =
      "# bash completion for kvplan; made by 'kvplan completion bash'\n"
      "_kvplan() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  local command='' word\n"
      "  COMPREPLY=()\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \"$word\" in\n";
  std::string pattern = all_commands();
  for (char& letter : pattern) {
    letter = letter == ' ' ? '|' : letter;
  }
  text += fmt::format("      {}) command=\"$word\"; break ;;\n    esac\n  done\n", pattern);
  text += fmt::format(
      "  if [[ -z $command ]]; then\n"
      "    COMPREPLY=($(compgen -W '{} --help --version' -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"$previous\" in\n",
      all_commands());
  for (const OptionSpec& option : option_specs()) {
    if (option.arity == Arity::kFlag) {
      continue;
    }
    std::string names;
    for (const std::string_view spelling : spellings(option)) {
      names += fmt::format("{}--{}|-{}", names.empty() ? "" : "|", spelling, spelling);
    }
    text +=
        fmt::format("    {})\n{}      return ;;\n", names, bash_reply(option.choices, "      "));
  }
  text += "  esac\n  case \"$command\" in\n";
  for (const CommandSpec& command : command_specs()) {
    std::string flags = "--help";
    for (const OptionSpec& option : option_specs()) {
      if (option.serves(command.command)) {
        flags += " " + option.flag();
      }
    }
    text += fmt::format(
        "    {})\n"
        "      if [[ $current == -* ]]; then\n"
        "        COMPREPLY=($(compgen -W '{}' -- \"$current\"))\n"
        "        return\n"
        "      fi\n{}      ;;\n",
        command.name, flags, bash_reply(command.input_choices, "      "));
  }
  return text + "  esac\n}\ncomplete -F _kvplan kvplan\n";
}

// ---------------------------------------------------------------------------------------- zsh

[[nodiscard]] std::string zsh_action(std::string_view choices) {
  const std::string words = quoted(words_of_choices(choices), ":()[]");
  if (choices == kFile) {
    return "_files";
  }
  if (choices == kModel) {
    return fmt::format("{{_files; compadd -- {}}}", words);
  }
  return words.empty() ? std::string{} : fmt::format("({})", words);
}

[[nodiscard]] std::string zsh_option(const OptionSpec& option) {
  const std::string help = quoted(first_line(option.help), ":[]");
  std::string names;
  for (const std::string_view spelling : spellings(option)) {
    names += fmt::format("{}--{}{}", names.empty() ? "" : ",", spelling,
                         option.arity == Arity::kFlag ? "" : "=");
  }
  const bool several = spellings(option).size() > 1;
  const std::string left = several ? "{" + names + "}" : names;
  const std::string repeated = option.arity == Arity::kRepeated ? "'*'" : "";
  if (option.arity == Arity::kFlag) {
    return fmt::format("{}'[{}]'", left, help);
  }
  return fmt::format("{}{}'[{}]:{}:{}'", repeated, left, help, quoted(option.value, ":[]@"),
                     zsh_action(option.choices));
}

[[nodiscard]] std::string zsh_script() {
  std::string text =
      "#compdef kvplan\n"
      "# zsh completion for kvplan; made by 'kvplan completion zsh'\n"
      "_kvplan() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const CommandSpec& command : command_specs()) {
    text += fmt::format("    '{}:{}'\n", command.name, quoted(command.summary, ":"));
  }
  text +=
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe -t commands command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $command in\n";
  for (const CommandSpec& command : command_specs()) {
    text += fmt::format("    {})\n      _arguments '--help[help]'", command.name);
    if (!command.input.empty()) {
      text +=
          fmt::format(" \\\n        '1:{}:{}'", command.input, zsh_action(command.input_choices));
    }
    for (const OptionSpec& option : option_specs()) {
      if (option.serves(command.command)) {
        text += " \\\n        " + zsh_option(option);
      }
    }
    text += "\n      ;;\n";
  }
  return text + "  esac\n}\n_kvplan \"$@\"\n";
}

// ---------------------------------------------------------------------------------------- fish

[[nodiscard]] std::string fish_quoted(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') {
      out += '\\';
    }
    out += letter;
  }
  return out;
}

/// `-r -F` for files, `-x -a '...'` for words, `-x` for free text.
[[nodiscard]] std::string fish_value(std::string_view choices) {
  const std::string words = fish_quoted(words_of_choices(choices));
  if (takes_files(choices)) {
    return words.empty() ? "-r -F" : fmt::format("-r -F -a '{}'", words);
  }
  return words.empty() ? "-x" : fmt::format("-x -a '{}'", words);
}

[[nodiscard]] std::string fish_script() {
  std::string text =
      "# fish completion for kvplan; made by 'kvplan completion fish'\n"
      "complete -c kvplan -f\n"
      "complete -c kvplan -n __fish_use_subcommand -l help -d 'help'\n"
      "complete -c kvplan -n __fish_use_subcommand -l version -d 'version'\n";
  for (const CommandSpec& command : command_specs()) {
    text += fmt::format("complete -c kvplan -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                        fish_quoted(command.summary));
  }
  for (const CommandSpec& command : command_specs()) {
    const std::string when = fmt::format("'__fish_seen_subcommand_from {}'", command.name);
    const std::string words = fish_quoted(words_of_choices(command.input_choices));
    if (takes_files(command.input_choices)) {
      text += fmt::format("complete -c kvplan -n {} -F\n", when);
    }
    if (!words.empty()) {
      text += fmt::format("complete -c kvplan -n {} -a '{}'\n", when, words);
    }
    for (const OptionSpec& option : option_specs()) {
      if (!option.serves(command.command)) {
        continue;
      }
      std::string names;
      for (const std::string_view spelling : spellings(option)) {
        names += fmt::format(" -l {}", spelling);
      }
      text += fmt::format("complete -c kvplan -n {}{} {}-d '{}'\n", when, names,
                          option.arity == Arity::kFlag ? "" : fish_value(option.choices) + " ",
                          fish_quoted(first_line(option.help)));
    }
  }
  return text;
}

}  // namespace

ExitCode run_completion(const Options& options) {
  constexpr std::array<std::string_view, 3> kShells{"bash", "zsh", "fish"};
  if (options.input == "bash") {
    print(bash_script());
  } else if (options.input == "zsh") {
    print(zsh_script());
  } else if (options.input == "fish") {
    print(fish_script());
  } else {
    throw usage_failure(options.input.empty() ? "SHELL is missing: bash, zsh or fish"
                                              : "unknown shell '" + options.input + "'" +
                                                    did_you_mean(options.input, kShells) +
                                                    "; known are " + joined(kShells));
  }
  return ExitCode::kFits;
}

}  // namespace kvpool::cli
