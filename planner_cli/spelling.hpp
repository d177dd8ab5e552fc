// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace kvpool::cli {

/// Single edits (insert, delete, replace, swap neighbours) that lead from one text to the other.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that a typing mistake most likely meant, or empty text when none is near. A
/// candidate that starts with the text counts as near.
[[nodiscard]] std::string_view nearest(std::string_view text,
                                       std::span<const std::string_view> candidates);

/// `; did you mean '<prefix><nearest>'?`, or empty text when none is near.
[[nodiscard]] std::string did_you_mean(std::string_view text,
                                       std::span<const std::string_view> candidates,
                                       std::string_view prefix = {});

/// True if `text` contains `part`, case and the separators `-`, `_`, `.` and space aside.
[[nodiscard]] bool contains_loosely(std::string_view text, std::string_view part);

/// The candidates, separated by commas.
[[nodiscard]] std::string joined(std::span<const std::string_view> words);

}  // namespace kvpool::cli
