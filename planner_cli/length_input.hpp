// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/plan/plan_request.hpp>
#include <kvpool/plan/pool_plan.hpp>
#include <kvpool/solve/length_mix.hpp>

#include "options.hpp"

#include <optional>

namespace kvpool::cli {

/// The mix of `--lengths`, when it is given: percentiles, or a file with one length a line (`#`
/// starts a comment). Above the last percentile stands the longest sequence of the request. Throws
/// a usage `Failure` for bad percentiles, an input `Failure` for a file.
[[nodiscard]] std::optional<LengthMix> read_lengths(const Options& options,
                                                    const PlanRequest& request);

/// As `read_lengths` for a plan, none of whose sequences may be longer than it plans for.
[[nodiscard]] std::optional<LengthMix> read_lengths(const Options& options, const Plan& plan);

}  // namespace kvpool::cli
