// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/model/model_config.hpp>

#include <string>

namespace kvpool::cli {

/// Reads a model's config from a file or a checkpoint directory. Throws an input `Failure`; for a
/// path that does not exist it names the configs beside it that may be meant.
[[nodiscard]] ModelConfig read_model(const std::string& path);

}  // namespace kvpool::cli
