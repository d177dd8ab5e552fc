// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvpool::io::detail {

/// `; did you mean 'page_sizes'?`, or the words to choose from when none is near.
[[nodiscard]] std::string advice(std::string_view word, std::span<const std::string_view> known);

}  // namespace kvpool::io::detail
