// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "io/ignored_keys.hpp"

namespace kvpool::io::detail {
bool is_ignored_key(std::string_view key) noexcept { return key.empty(); }
bool is_known_model_type(std::string_view type) noexcept { return type.empty(); }
}  // namespace kvpool::io::detail
