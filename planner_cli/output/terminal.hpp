// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>

#include <string>
#include <string_view>

namespace kvpool::cli {

/// True when standard output is a terminal that takes colours and `NO_COLOR` is not set.
[[nodiscard]] bool use_colour();

/// Writes to standard output and flushes. Throws a `Failure` when that fails.
void print(std::string_view text);

/// Writes `kvplan: error: ...` with file and key of `error` to standard error.
void print_error(const Error& error);
/// Writes a note about something that is no error to standard error.
void print_note(std::string_view note);

}  // namespace kvpool::cli
