// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/plan/pool_plan.hpp>

#include "exit_codes.hpp"

namespace kvpool::cli {

/// Has `kvplan-gpu-verify`, which lies beside this program, allocate the plan on a GPU and validate
/// its geometry. What it prints goes to standard output, or to standard error if that is kept for a
/// document. kvplan itself links no CUDA.
/// @return `kFits` when all is as planned, `kDoesNotFit` when it is not. Throws a `Failure` with
///   `kDeviceOrIo` when the program is missing, there is no GPU, or it fails
[[nodiscard]] ExitCode verify_on_gpu(const Plan& plan, bool keep_standard_output);

}  // namespace kvpool::cli
