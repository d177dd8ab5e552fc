// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/model/model_config.hpp>

#include "json_reader.hpp"
#include "json_value.hpp"

#include <functional>
#include <set>
#include <string>

namespace kvpool::io::detail {

/// A model from a parsed config. Throws `Refused`.
/// @param beside the `hf_quant_config.json` beside it, or null
/// @param asked_keys gets the keys of the config that were asked for, or null
[[nodiscard]] ModelConfig assemble_model(const Json& root, const std::string& file,
                                         const JsonReader* beside,
                                         std::set<std::string, std::less<>>* asked_keys);

}  // namespace kvpool::io::detail
