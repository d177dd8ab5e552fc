// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "option_names.hpp"

#include "exit_codes.hpp"
#include "spelling.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace kvpool::cli {
namespace {

/// Commands that the next versions bring.
constexpr std::array<std::string_view, 1> kLaterCommands{"calibrate"};

[[nodiscard]] std::vector<std::string_view> command_names() {
  std::vector<std::string_view> names;
  for (const CommandSpec& spec : command_specs()) {
    names.push_back(spec.name);
  }
  return names;
}

[[nodiscard]] std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string out{"'"};
  out.append(text.substr(0, kLongest)).append(text.size() > kLongest ? "...'" : "'");
  return out;
}

[[noreturn]] void fail_unknown_command(std::string_view name) {
  const std::vector<std::string_view> names = command_names();
  if (std::ranges::find(kLaterCommands, name) != kLaterCommands.end()) {
    throw usage_failure("command " + quoted(name) + " is not in this version; there are " +
                        joined(names));
  }
  const std::string near = did_you_mean(name, names);
  throw usage_failure("unknown command " + quoted(name) +
                      (near.empty() ? "; there are " + joined(names) : near));
}

[[noreturn]] void fail_unknown_option(std::string_view argument, std::string_view name,
                                      Command command) {
  const std::string_view advice = foreign_option_advice(name);
  if (!advice.empty()) {
    throw usage_failure(quoted(argument) + " is not taken: " + std::string{advice});
  }
  for (const CommandSpec& other : command_specs()) {
    if (find_option(name, other.command) != nullptr) {
      throw usage_failure("'kvplan " + std::string{to_string(command)} + "' does not take " +
                          quoted(argument) + "; 'kvplan " + std::string{other.name} + "' does");
    }
  }
  std::string typed{name};
  std::ranges::replace(typed, '_', '-');
  std::vector<std::string_view> known = spellings_of(command);
  known.emplace_back("help");
  const std::string near = did_you_mean(typed, known, "--");
  throw usage_failure(
      "unknown option " + quoted(argument) + " of 'kvplan " + std::string{to_string(command)} +
      "'" +
      (near.empty() ? "; see 'kvplan " + std::string{to_string(command)} + " --help'" : near));
}

/// Adds `--name=value`, unless the option has a value already.
void add_value(const OptionSpec& spec, std::string_view value, NormalArguments& normal) {
  const std::string start = spec.flag() + "=";
  const auto given = std::ranges::find_if(
      normal.options, [&start](const std::string& option) { return option.starts_with(start); });
  if (given != normal.options.end() && spec.arity != Arity::kRepeated) {
    throw usage_failure(spec.flag() + " is given twice: " + quoted(given->substr(start.size())) +
                        " and " + quoted(value));
  }
  normal.options.push_back(start + std::string{value});
}

/// An argument taken apart: `--name=value`, `-name`, ...
struct Dashed {
  std::string_view name;
  std::optional<std::string_view> value;
};

/// Splits an option, or nothing for what is none (`-`, `-5`, `plan`).
[[nodiscard]] std::optional<Dashed> split_option(std::string_view argument) {
  if (argument.size() < 2 || argument.front() != '-' ||
      (argument[1] >= '0' && argument[1] <= '9')) {
    return std::nullopt;
  }
  std::string_view name = argument.substr(argument[1] == '-' ? 2 : 1);
  std::optional<std::string_view> value;
  if (const std::size_t equals = name.find('='); equals != std::string_view::npos) {
    value = name.substr(equals + 1);
    name = name.substr(0, equals);
  }
  return Dashed{name, value};
}

/// `-tp4` as `-tp 4`: a single dash, an option, a number.
[[nodiscard]] std::optional<Dashed> split_number(std::string_view argument, Command command) {
  const std::size_t digits = argument.find_first_of("0123456789");
  if (argument.starts_with("--") || digits == std::string_view::npos || digits < 2 ||
      argument.find_first_not_of("0123456789", digits) != std::string_view::npos) {
    return std::nullopt;
  }
  const Dashed option{argument.substr(1, digits - 1), argument.substr(digits)};
  const OptionSpec* spec = find_option(option.name, command);
  return spec != nullptr && spec->arity == Arity::kOne ? std::optional{option} : std::nullopt;
}

}  // namespace

NormalArguments normalise_arguments(std::span<const std::string_view> arguments) {
  NormalArguments normal;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--") {
      normal.positionals.insert(normal.positionals.end(),
                                arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                arguments.end());
      break;
    }
    std::optional<Dashed> option = split_option(argument);
    if (!option.has_value()) {
      if (normal.has_command) {
        normal.positionals.emplace_back(argument);
      } else if (argument == "help") {
        normal.help = true;
      } else if (const auto command = find_command(argument); command.has_value()) {
        normal.command = *command;
        normal.has_command = true;
      } else {
        fail_unknown_command(argument);
      }
      continue;
    }
    if (argument == "--help" || argument == "-h") {
      normal.help = true;
      continue;
    }
    if (argument == "--version") {
      normal.version = true;
      continue;
    }
    if (!normal.has_command) {
      throw usage_failure("a command comes before " + quoted(argument) + ": one of " +
                          joined(command_names()));
    }
    const OptionSpec* spec = find_option(option->name, normal.command);
    if (const auto number = split_number(argument, normal.command);
        spec == nullptr && number.has_value()) {
      option = number;
      spec = find_option(option->name, normal.command);
    }
    if (spec == nullptr) {
      fail_unknown_option(argument, option->name, normal.command);
    }
    if (spec->arity == Arity::kFlag) {
      if (option->value.has_value()) {
        throw usage_failure(spec->flag() + " takes no value, got " + quoted(*option->value));
      }
      normal.options.push_back(spec->flag());
      continue;
    }
    std::string_view value;
    if (option->value.has_value()) {
      value = *option->value;
    } else if (i + 1 < arguments.size() && (!split_option(arguments[i + 1]).has_value())) {
      value = arguments[++i];
    } else {
      throw usage_failure(spec->flag() + " needs a value: " + spec->flag() + " " +
                          std::string{spec->value});
    }
    add_value(*spec, value, normal);
  }
  return normal;
}

}  // namespace kvpool::cli
