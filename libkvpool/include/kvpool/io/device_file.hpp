// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/device_spec.hpp>
#include <kvpool/core/result.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace kvpool::io {

/// Reads GPUs from a TOML file, one `[[gpu]]` table each; `docs/planner.md` describes the keys.
/// Files above 1 MiB are refused.
/// @return The GPUs in file order, with unique names. Else an `Error`: `kNotFound`/`kIo` for the
///   file, `kInvalidArgument` for anything in it, with line and column in the message and the
///   dotted key in `Error::key`. A key that is not known is an error, and names the known key that
///   is nearest; a process that sees more than nvidia-smi shows is an error: marketed GB taken for
///   GiB.
[[nodiscard]] Result<std::vector<DeviceSpec>> read_device_file(const std::string& path);

/// As `read_device_file`, from text.
/// @param file name used in errors
[[nodiscard]] Result<std::vector<DeviceSpec>> parse_device_file(std::string_view text,
                                                                const std::string& file);

}  // namespace kvpool::io
