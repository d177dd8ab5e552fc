// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/model/model_config.hpp>

#include "json_reader.hpp"
#include "model_fields.hpp"

#include <optional>

namespace kvpool::io::detail {

/// What the config says about drafting; nothing when it is not a drafter's.
[[nodiscard]] std::optional<DrafterTraits> read_drafter(const JsonReader& config,
                                                        const ModelFields& fields, FactLog& facts);

}  // namespace kvpool::io::detail
