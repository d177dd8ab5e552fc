// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exit_codes.hpp"
#include "options.hpp"
#include "request.hpp"

namespace kvpool::cli {

/// `kvplan plan --engine NAME` and `--compare-engines`: one deployment through the arithmetic of
/// other engines.
[[nodiscard]] ExitCode run_engines(const Options& options, const Deployment& deployment);

}  // namespace kvpool::cli
