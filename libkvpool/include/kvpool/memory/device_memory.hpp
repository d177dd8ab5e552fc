// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/memory/page_memory.hpp>

#include <cstdint>

namespace kvpool {

/// Memory of a GPU, reserved and committed in one piece by `cudaMalloc`.
///
/// `kvpool::kvpool` holds no CUDA code: here the call always returns `unsupported`, with a message
/// that says what to use instead: `DeviceMemory` of `<kvpool/cuda/device_memory.hpp>`,
/// in target kvpool::cuda. It exists so that a program can ask and report.
/// @param device ordinal of the GPU, from 0
/// @return `invalid_argument` for a negative ordinal, `unsupported` for any other.
Result<AnyPageMemory> device_memory(std::int32_t device);

}  // namespace kvpool
