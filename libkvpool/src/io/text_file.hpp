// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>

#include <string>
#include <string_view>

namespace kvpool::io::detail {

/// Reads a whole file of at most 64 MiB.
/// @return `kNotFound` when there is none, `kIo` when it cannot be read or is a directory,
///   `kInvalidArgument` when it is larger
[[nodiscard]] Result<std::string> read_text_file(const std::string& path);

/// Replaces a file's contents. @return `kIo` when that fails
Result<void> write_text_file(const std::string& path, std::string_view text);

}  // namespace kvpool::io::detail
