// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace kvpool {

/// A number with thousands separators, such as `45,440`; the same in every locale.
[[nodiscard]] std::string format_count(std::int64_t count);

/// Exact bytes and, from 1 KiB on, the binary unit: `3,722,444,800 B (3.47 GiB)`.
[[nodiscard]] std::string format_bytes(Bytes size);

/// An address as `0x7f12a0000000`.
[[nodiscard]] std::string format_address(std::uintptr_t address);

/// Untrusted text for a message: at most 40 characters, control characters replaced by `?`.
[[nodiscard]] std::string format_excerpt(std::string_view text);

}  // namespace kvpool
