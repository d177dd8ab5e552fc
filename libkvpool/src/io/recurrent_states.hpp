// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/model/layer_cache.hpp>

#include "json_reader.hpp"
#include "layer_kinds.hpp"
#include "model_fields.hpp"

namespace kvpool::io::detail {

/// Sizes of the state that a recurrent layer of `kind` keeps. @pre is_recurrent(kind)
[[nodiscard]] StateCache read_state(const JsonReader& config, const ModelFields& fields,
                                    LayerKind kind, FactLog& facts);

}  // namespace kvpool::io::detail
