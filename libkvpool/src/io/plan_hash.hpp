// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/plan/pool_plan.hpp>

#include <string>
#include <string_view>

namespace kvpool::io::detail {

/// XXH3 hash (128 bits) of a text, as 32 hexadecimal digits.
[[nodiscard]] std::string hash_text(std::string_view text);

/// Hash of what the kernel registry said: the decisions and refusals of a resolution, as a document
/// writes them. The same before a document is written and after it is read.
[[nodiscard]] std::string registry_hash(const Resolution& resolution);

}  // namespace kvpool::io::detail
