// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exit_codes.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace kvpool::cli {

/// The program with GPU code that lies beside this one: kvplan itself links no CUDA.
inline constexpr std::string_view kGpuHelper = "kvplan-gpu-verify";

/// What ends kvplan with `kDeviceOrIo`.
[[nodiscard]] Failure device_failure(std::string message, ErrorCode code = ErrorCode::kDevice);

/// Runs the helper. What it prints goes to standard output, or to standard error if that is kept
/// for a document.
/// @param option of kvplan for which it is run, for messages
/// @param missing code of the failure where there is no helper
/// @return its exit code, or -1 if a signal ended it. Throws a `Failure` with `kDeviceOrIo` when it
///   is missing or cannot be run
[[nodiscard]] int run_gpu_helper(const std::string& option, std::vector<std::string> arguments,
                                 bool keep_standard_output, ErrorCode missing = ErrorCode::kDevice);

}  // namespace kvpool::cli
