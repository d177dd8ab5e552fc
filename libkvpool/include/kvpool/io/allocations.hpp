// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/pool/allocation.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace kvpool::io {

/// Reads what an engine allocated: a JSON array of `{"pool": text, "address": whole number or
/// "0x..." text, "bytes": whole number}`. Other keys are refused, so that a misspelt one is
/// noticed. Files above 64 MiB are refused.
/// @return the allocations in file order; an `Error` with file, key and value otherwise
[[nodiscard]] Result<std::vector<Allocation>> read_allocations(const std::string& path);

/// As `read_allocations`, from text.
/// @param file name used in errors
[[nodiscard]] Result<std::vector<Allocation>> parse_allocations(std::string_view json,
                                                                const std::string& file);

}  // namespace kvpool::io
