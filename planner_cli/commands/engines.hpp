// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exit_codes.hpp"
#include "options.hpp"
#include "request.hpp"

namespace kvpool::cli {

/// True if the command line asks for other engines' arithmetic. Throws a usage `Failure` for
/// options that exclude each other, or that no engine would read.
[[nodiscard]] bool asks_for_engines(const Options& options);

/// `kvplan plan --engine NAME` and `--compare-engines`: one deployment through the arithmetic of
/// other engines.
[[nodiscard]] ExitCode run_engines(const Options& options, const Deployment& deployment);

}  // namespace kvpool::cli
