// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/io/safetensors.hpp>
#include <kvpool/model/model_config.hpp>
#include <kvpool/model/stored_weights.hpp>

#include <optional>
#include <span>
#include <string>

namespace kvpool::io {

/// Reads a checkpoint: its config, and the weights to the byte when it has safetensors files, whose
/// headers alone are read.
///
/// The files are those of `model.safetensors.index.json`, else `model.safetensors`, else the
/// consolidated ones, else all `*.safetensors` of the directory. Without any (another format, or a
/// config by itself) the model keeps its estimate.
/// @param path a checkpoint directory, or a config file: of a file named `config.json` the
///   directory is looked at, of others only the config
/// @return The model, or an `Error` as `read_model_config` and `read_safetensors_header` give it;
///   an index that names a file outside the directory, or a tensor that its file does not have, is
///   `kInvalidArgument`
[[nodiscard]] Result<ModelConfig> read_checkpoint(const std::string& path);

/// Sorts tensors by where they live and how ranks divide them.
/// @param model layers, heads and native type, as read from the checkpoint's config
/// @param tied `tie_word_embeddings` of the config; nothing: tied if the tensors have no head
/// @param files how many files the tensors come from
[[nodiscard]] StoredWeights sort_weights(std::span<const StoredTensor> tensors,
                                         const ModelConfig& model, std::optional<bool> tied,
                                         std::int64_t files);

}  // namespace kvpool::io
