// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>

#include <cstdint>
#include <string_view>

namespace kvpool {

/// The failure of asking a library without CUDA code for memory of a GPU.
/// @param what the memory that was asked for
[[nodiscard]] Error no_cuda(std::string_view what, std::int32_t device);

}  // namespace kvpool
