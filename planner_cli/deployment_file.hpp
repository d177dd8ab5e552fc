// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "options.hpp"

#include <string>
#include <vector>

namespace kvpool::cli {

/// Adds what a deployment file says to options that the command line does not set. Keys are the
/// spellings of the options without dashes, with `_` or `-`; `model` stands for MODEL. Relative
/// paths start at the file's folder; a `model` or `drafter` that is no file there is a name. Throws
/// an input `Failure` with line and column.
/// @param complaints if given, gets what is wrong with single keys, which then are left out
void add_deployment_file(const std::string& path, Options& options,
                         std::vector<Error>* complaints = nullptr);

/// As `add_deployment_file`, of a file's text.
/// @param path name used in complaints, and where relative paths start
void add_deployment_text(const std::string& text, const std::string& path, Options& options,
                         std::vector<Error>* complaints = nullptr);

}  // namespace kvpool::cli
