// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/engine/engine_figure.hpp>
#include <kvpool/engine/engine_request.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::io {

/// One question to an engine's arithmetic, and what a real engine printed.
struct EngineCase {
  /// Name of the case.
  std::string id{};
  /// Version of the engine as far as known; for information.
  std::string engine_version{};
  /// The question.
  EngineRequest request{};
  /// The answer, sorted by name.
  std::vector<ExpectedFigure> expected{};
  /// How the engine keeps decimals.
  FigureRounding rounding = FigureRounding::kNearest;
};

/// One line of a file of cases: the case, or what is wrong with it.
struct EngineCaseLine {
  /// Line of the file, from 1.
  std::int64_t line = 0;
  /// Name of the case, also where only that could be read; else empty.
  std::string id{};
  /// The case, or an error with `file:line`, key and value.
  Result<EngineCase> content;
};

/// Reads a file of cases: one JSON object a line, described in `docs/engines.md`. Empty lines are
/// skipped. A bad line does not keep the others from being read.
/// @param configs folder of the model configs that cases name
/// @return one entry per line; an `Error` only where the file itself cannot be read
[[nodiscard]] Result<std::vector<EngineCaseLine>> read_engine_cases(const std::string& path,
                                                                    const std::string& configs);

/// As `read_engine_cases`, from text.
/// @param file name used in errors
[[nodiscard]] std::vector<EngineCaseLine> parse_engine_cases(std::string_view text,
                                                             const std::string& file,
                                                             const std::string& configs);

/// Sets one setting of a deployment by its name in the case files (`token_report`, `k_dtype`, ...).
/// @param value as it would stand in the file; text may go without its quotes
/// @return `kInvalidArgument` for an unknown name or a value out of its domain
Result<void> set_engine_setting(std::string_view key, std::string_view value, Engine engine,
                                EngineSettings& settings);

}  // namespace kvpool::io
