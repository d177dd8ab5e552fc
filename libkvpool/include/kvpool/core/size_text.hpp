// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>

#include <string>
#include <string_view>

namespace kvpool {

/// Reads a size in bytes: digits, an optional decimal fraction, optional spaces and a unit.
///
/// Units mean what they say, in any case: B, KB/MB/GB/TB are powers of 1000 and KiB/MiB/GiB/TiB
/// powers of 1024. A whole number without a unit is bytes. A fraction is computed exactly, whatever
/// its length, and rounded down to bytes: `139.8GiB` is 150,109,106,995 B.
/// @return `invalid_argument` for text that is empty, negative, not a number, in an unknown unit or
///     in a bare K, M, G or T (the message names the two units it could mean), and for a fraction
///     of a byte; `out_of_range` for more than 2^63 - 1 bytes. Each message and `Error::value` hold
///     the text, shortened.
Result<Bytes> parse_size(std::string_view text);

/// Reads a number of tokens: `131072`, or with a suffix as vLLM reads it: lower case is decimal
/// (`128k` = 128,000), upper case is binary (`128K` = 131,072); k/K, m/M and g/G. A lower-case
/// suffix takes a fraction that comes out whole (`25.6k` = 25,600).
/// @return `invalid_argument` for text that is empty, negative, not a number, with an unknown
///     suffix or with a fraction that is not a whole number of tokens; `out_of_range` for more than
///     2^63 - 1 tokens. Each message and `Error::value` hold the text, shortened.
Result<Tokens> parse_token_count(std::string_view text);

/// A size for people: exact bytes and, from 1 KiB on, the nearest hundredth of a binary unit, such
/// as `3,722,444,800 B (3.47 GiB)`. The same in every locale.
[[nodiscard]] std::string size_text(Bytes size);

/// A size for a command line: the largest binary unit that divides it, such as `3550MiB` or
/// `656B`. `parse_size` reads it back to the same bytes if it is not negative.
[[nodiscard]] std::string size_argument(Bytes size);

}  // namespace kvpool
