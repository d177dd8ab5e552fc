// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace kvpool::io::detail {

/// Reads a whole file of at most 64 MiB.
/// @return `kNotFound` when there is none, `kIo` when it cannot be read or is a directory,
///   `kInvalidArgument` when it is larger
[[nodiscard]] Result<std::string> read_text_file(const std::string& path);

/// The start of a file, and how long the whole is.
struct FileStart {
  /// At most the bytes that were asked for.
  std::string text;
  /// Bytes of the whole file.
  Bytes file_size;
};

/// Reads the first `count` bytes of a file, or all of a shorter one.
/// @return `kNotFound` when there is none, `kIo` when it cannot be read or is no regular file
[[nodiscard]] Result<FileStart> read_file_start(const std::string& path, std::size_t count);

/// Replaces a file's contents. @return `kIo` when that fails
Result<void> write_text_file(const std::string& path, std::string_view text);

}  // namespace kvpool::io::detail
