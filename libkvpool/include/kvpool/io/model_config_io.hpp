// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/model/model_config.hpp>

#include <string>
#include <string_view>

namespace kvpool::io {

/// Reads a Hugging Face config from a file, or from the `config.json` of a checkpoint directory.
/// A `hf_quant_config.json` in the same directory is read too; it may set the cache's and the
/// weights' format. Files above 64 MiB are refused.
/// @return The model, or an `Error` with file, key and value: `kNotFound`/`kIo` for the file,
///   `kInvalidArgument` for malformed or out-of-domain values, `kUnsupported` for a layer kind that
///   is not understood (the message says which key to add or what is missing).
[[nodiscard]] Result<ModelConfig> read_model_config(const std::string& path);

/// As `read_model_config`, from text.
/// @param json the config's text; bare `Infinity`, `-Infinity` and `NaN` are accepted
/// @param file name used in errors and as the model's display name
/// @param hf_quant_config text of a `hf_quant_config.json`, or empty
[[nodiscard]] Result<ModelConfig> parse_model_config(std::string_view json, const std::string& file,
                                                     std::string_view hf_quant_config = {});

}  // namespace kvpool::io
