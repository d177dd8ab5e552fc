// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/checked.hpp>

#include "json_reader.hpp"

#include <cstdint>
#include <optional>

namespace kvpool::io::detail {

/// Parameters of the vision encoder that `vision_config` describes, with the projector to the text
/// model; nothing when there is none or its figures are missing.
/// @param text_hidden width of the text model
[[nodiscard]] std::optional<CheckedInt> vision_parameters(const JsonReader& config,
                                                          std::int64_t text_hidden);

}  // namespace kvpool::io::detail
