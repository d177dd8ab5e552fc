// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace kvpool::io {

/// What is the matter.
enum class FindingKind {
  kNotUnderstood,  ///< a key, value, model type or tensor of which no rule here knows
  kContradictory,  ///< two things that cannot both hold, or a value that cannot be
  kDefaulted,      ///< left out, and taken to be what the message says
};

/// Stable lower-case name: `not_understood`, `contradictory`, `defaulted`.
[[nodiscard]] std::string_view to_string(FindingKind kind) noexcept;

/// One thing that a person should look at.
struct Finding {
  /// What is the matter.
  FindingKind kind = FindingKind::kNotUnderstood;
  /// File it stands in.
  std::string file{};
  /// Dotted key, or empty.
  std::string key{};
  /// The value as text, shortened, or empty.
  std::string value{};
  /// What it means and what to do.
  std::string message{};

  /// Field by field.
  friend bool operator==(const Finding&, const Finding&) = default;
};

/// Looks a config over, and the files of its checkpoint if there are any.
/// @param path as `read_checkpoint` takes it
/// @return the findings in the order of reading; empty when there are none. An `Error` only when
///   there is nothing to look over: `kNotFound`/`kIo` for the file
[[nodiscard]] Result<std::vector<Finding>> lint_checkpoint(const std::string& path);

/// As `lint_checkpoint`, of a config as text.
/// @param file name used in findings
/// @param hf_quant_config text of a `hf_quant_config.json`, or empty
[[nodiscard]] std::vector<Finding> lint_config(std::string_view json, const std::string& file,
                                               std::string_view hf_quant_config = {});

/// True for a `model_type` whose configs the reader was made for. Layers of other types are priced
/// by their keys alone.
[[nodiscard]] bool is_known_model_type(std::string_view type) noexcept;

}  // namespace kvpool::io
