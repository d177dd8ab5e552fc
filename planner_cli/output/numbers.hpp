// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>

#include <cstdint>
#include <string>

namespace kvpool::cli {

/// A number with thousands separators, the same in every locale: `45,440`.
[[nodiscard]] std::string count_text(std::int64_t count);

/// Exact bytes: `81,920 B`.
[[nodiscard]] std::string bytes_text(Bytes bytes);

/// The nearest hundredth of a GiB: `3.47`.
[[nodiscard]] std::string gib_number(Bytes bytes);

/// The nearest hundredth of the largest binary unit that fits: `3.47 GiB`, `80.00 KiB`, `656 B`.
[[nodiscard]] std::string short_size(Bytes bytes);

/// `1 page`, `2 pages`.
[[nodiscard]] std::string counted(std::int64_t count, const std::string& noun);

}  // namespace kvpool::cli
