// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/model/model_config.hpp>

#include "json_value.hpp"

#include <string>

namespace kvpool::io::detail {

/// As `io::read_model_config`, with fields laid over those of the file, after the text model's have
/// been merged in.
/// @param overrides an object, or null; a null member takes the file's field away
[[nodiscard]] Result<ModelConfig> read_model_config(const std::string& path, const Json* overrides);

}  // namespace kvpool::io::detail
