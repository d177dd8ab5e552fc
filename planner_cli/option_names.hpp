// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command_table.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::cli {

/// Options, whatever they are spelled like.
enum class OptionId {
  kTp,
  kPp,
  kDp,
  kAttentionDp,
  kDcp,
  kEp,
  kKvCacheDtype,
  kPageSize,
  kMaxModelLen,
  kMaxNumSeqs,
  kMaxNumBatchedTokens,
  kLayout,
  kReservedPages,
  kGpu,
  kGpuMemory,
  kGpuMemoryUtilization,
  kKvBudget,
  kWeights,
  kOverhead,
  kGranularity,
  kGpus,
  kHostEngine,
  kActivations,
  kCudaContext,
  kCudaGraphs,
  kCommunication,
  kCoLocated,
  kDrafter,
  kDrafterKind,
  kDrafterBackend,
  kNumDraftTokens,
  kDraftKvCacheDtype,
  kDraftPageSize,
  kKernelSet,
  kKernels,
  kSelfTest,
  kEngine,
  kEngineVersion,
  kEngineOption,
  kCompareEngines,
  kDeployment,
  kAllocations,
  kVerifyOnGpu,
  kStage,
  kConfigs,
  kCases,
  kAllow,
  kLengths,
  kFind,
  kCandidate,
  kMaxGpus,
  kOver,
  kFormat,
  kChartX,
  kChartY,
  kJobs,
  kJson,
};

/// How often an option may be given, and with what.
enum class Arity {
  kFlag,      ///< once, without a value
  kOne,       ///< once, with a value
  kRepeated,  ///< any number of times, with a value each
};

/// One option with every spelling that people know it by.
struct OptionSpec {
  /// Which.
  OptionId id = OptionId::kTp;
  /// Heading in the help.
  std::string_view group;
  /// Spellings without dashes; the first is the one that help and messages use.
  std::array<std::string_view, 5> spellings;
  /// Number and presence of values.
  Arity arity = Arity::kOne;
  /// Name of the value in the help.
  std::string_view value;
  /// One line of help.
  std::string_view help;
  /// Commands that take it.
  CommandSet commands;
  /// What shells complete the value with: words, or `@model`, `@file`, `@gpu`, `@dtype`.
  std::string_view choices = {};

  /// `--` and the first spelling.
  [[nodiscard]] std::string flag() const { return std::string{"--"}.append(spellings[0]); }
  /// True if `command` takes it.
  [[nodiscard]] bool serves(Command command) const noexcept { return commands.has(command); }
};

/// All options, in the order of the help.
[[nodiscard]] std::span<const OptionSpec> option_specs() noexcept;

/// The option of this id.
[[nodiscard]] const OptionSpec& option_spec(OptionId id) noexcept;

/// The option that `name` (without dashes; `_` counts as `-`) spells for `command`, or null.
[[nodiscard]] const OptionSpec* find_option(std::string_view name, Command command) noexcept;

/// All spellings of the options that `command` takes, without dashes.
[[nodiscard]] std::vector<std::string_view> spellings_of(Command command);

/// What to do instead of an engine's option that kvplan knows but does not take; empty if `name` is
/// none of those.
[[nodiscard]] std::string_view foreign_option_advice(std::string_view name) noexcept;

/// A command line in one spelling: every option as `--name=value` or `--flag`, then what is not an
/// option.
struct NormalArguments {
  /// The command; meaningless when help or the version was asked for before any command.
  Command command = Command::kPlan;
  /// True if a command was named.
  bool has_command = false;
  /// True for `--help`, `-h`, `help`.
  bool help = false;
  /// True for `--version`.
  bool version = false;
  /// Options in one spelling.
  std::vector<std::string> options;
  /// The rest.
  std::vector<std::string> positionals;
};

/// Brings a command line into one spelling: `-tp 4`, `--tensor_parallel_size=4` and `--tp-size 4`
/// become `--tp=4`. Throws a usage `Failure` for an unknown command or option, with the nearest
/// known one, and for an option without its value.
[[nodiscard]] NormalArguments normalise_arguments(std::span<const std::string_view> arguments);

}  // namespace kvpool::cli
