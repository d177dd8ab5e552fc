// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "options.hpp"

#include <string>

namespace kvpool::cli {

/// Adds what a deployment file says to options that the command line does not set. Keys are the
/// spellings of the options without dashes, with `_` or `-`; `model` stands for MODEL. Relative
/// paths start at the file's folder. Throws an input `Failure` with line and column.
void add_deployment_file(const std::string& path, Options& options);

}  // namespace kvpool::cli
