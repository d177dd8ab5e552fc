// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

namespace kvpool::cli {

/// What kvplan does.
enum class Command {
  kPlan,
  kExplain,
  kKernels,
  kVerify,
  kCheck,
  kSolve,
  kSweep,
  kDiff,
  kLint,
  kModels,
  kGpus,
  kCompletion,
  kMan,
};

/// Some of the commands.
class CommandSet {
 public:
  /// The commands of a list.
  constexpr CommandSet(std::initializer_list<Command> commands) noexcept {
    for (const Command command : commands) {
      bits_ |= bit(command);
    }
  }
  /// True if `command` is one of them.
  [[nodiscard]] constexpr bool has(Command command) const noexcept {
    return (bits_ & bit(command)) != 0;
  }

 private:
  [[nodiscard]] static constexpr std::uint32_t bit(Command command) noexcept {
    return std::uint32_t{1} << static_cast<std::uint32_t>(command);
  }
  std::uint32_t bits_ = 0;
};

/// One command as help, completion and manual show it.
struct CommandSpec {
  /// Which.
  Command command = Command::kPlan;
  /// As typed.
  std::string_view name;
  /// One line.
  std::string_view summary;
  /// Lines of examples, each ended.
  std::string_view examples;
  /// Name of the argument that is no option.
  std::string_view input;
  /// What it is.
  std::string_view input_help;
  /// What shells complete it with: words, or `@model`, `@file`.
  std::string_view input_choices;
  /// Name of a second such argument, or empty.
  std::string_view second_input = {};
};

/// All commands, in the order of the help.
[[nodiscard]] std::span<const CommandSpec> command_specs() noexcept;

/// The description of a command.
[[nodiscard]] const CommandSpec& command_spec(Command command) noexcept;

/// The command of this name, or nothing.
[[nodiscard]] std::optional<Command> find_command(std::string_view name) noexcept;

/// Name as typed: `plan`, `explain`, ...
[[nodiscard]] std::string_view to_string(Command command) noexcept;

/// What kvplan is and three ways to use it, for the help and the manual.
[[nodiscard]] std::string_view program_examples() noexcept;

/// Exit statuses, for the help and the manual.
[[nodiscard]] std::string_view exit_status_text() noexcept;

}  // namespace kvpool::cli
