// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exit_codes.hpp"
#include "options.hpp"

namespace kvpool::cli {

/// `kvplan plan`: what fits, as a report or as a `kvpool.plan/1` document.
[[nodiscard]] ExitCode run_plan(const Options& options);

/// `kvplan explain`: how every figure of the plan comes about.
[[nodiscard]] ExitCode run_explain(const Options& options);

/// `kvplan kernels`: the kernel rows, and for a model which of them would run on it.
[[nodiscard]] ExitCode run_kernels(const Options& options);

/// `kvplan verify`: compares an engine's allocations with a plan.
[[nodiscard]] ExitCode run_verify(const Options& options);

/// `kvplan check`: compares engines' arithmetic with what they printed.
[[nodiscard]] ExitCode run_check(const Options& options);
/// `kvplan solve`: values of options for which a plan fits, and the limits on their other side.
[[nodiscard]] ExitCode run_solve(const Options& options);

/// `kvplan sweep`: plans over the values of options.
[[nodiscard]] ExitCode run_sweep(const Options& options);

/// `kvplan diff`: what differs between two plans or deployments.
[[nodiscard]] ExitCode run_diff(const Options& options);

/// `kvplan lint`: what in a config or deployment is not understood, contradictory or defaulted.
[[nodiscard]] ExitCode run_lint(const Options& options);

/// `kvplan models`: the catalogue.
[[nodiscard]] ExitCode run_models(const Options& options);

/// `kvplan gpus`: the known GPUs and those of `--gpus` files.
[[nodiscard]] ExitCode run_gpus(const Options& options);

/// `kvplan completion`: a completion script for a shell.
[[nodiscard]] ExitCode run_completion(const Options& options);

/// `kvplan man`: the manual page.
[[nodiscard]] ExitCode run_man(const Options& options);

}  // namespace kvpool::cli
