// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/kernel_capability.hpp>
#include <kvpool/core/result.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace kvpool::io {

/// Reads kernel rows from a TOML file, one `[[kernel]]` table a row; `docs/kernels.md` describes
/// the keys. Add them to a `CapabilityRegistry`. Files above 1 MiB are refused.
/// @return The rows in file order, each one that a registry accepts, with unique names. Else an
///   `Error`: `kNotFound`/`kIo` for the file, `kInvalidArgument` for anything in it, with
///   `file:line:column` in `Error::file` and the dotted key in `Error::key`. A key that is not
///   known is an error, and names the known key that is nearest.
[[nodiscard]] Result<std::vector<KernelCapability>> read_kernel_file(const std::string& path);

/// As `read_kernel_file`, from text.
/// @param file name used in errors
[[nodiscard]] Result<std::vector<KernelCapability>> parse_kernel_file(std::string_view text,
                                                                      const std::string& file);

}  // namespace kvpool::io
