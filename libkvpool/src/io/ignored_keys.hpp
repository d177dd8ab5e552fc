// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace kvpool::io::detail {

/// True for keys of configs that are known to decide neither caches nor weights: tokens, positions,
/// initialisation, dropout, training, encoders' inner figures.
[[nodiscard]] bool is_ignored_key(std::string_view key) noexcept;

/// True for a `model_type` whose configs were compared with this reader.
[[nodiscard]] bool is_known_model_type(std::string_view type) noexcept;

}  // namespace kvpool::io::detail
