// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/engine/engine_request.hpp>

#include "json_reader.hpp"

#include <span>
#include <string_view>

namespace kvpool::io::detail {

/// Names of all settings of a deployment.
[[nodiscard]] std::span<const std::string_view> setting_names() noexcept;

/// Reads the settings that an object has; the others keep what they are. Refuses unknown ones.
void read_settings(const JsonReader& object, Engine engine, EngineSettings& settings);

/// Refuses keys of `object` that are not among `known`.
void refuse_unknown_keys(const JsonReader& object, std::span<const std::string_view> known);

}  // namespace kvpool::io::detail
