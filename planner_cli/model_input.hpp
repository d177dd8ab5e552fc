// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/model/model_config.hpp>

#include <string>

namespace kvpool::cli {

/// Where a model came from.
enum class ModelOrigin {
  kPath,       ///< a file or directory
  kHubCache,   ///< the local Hugging Face cache
  kCatalogue,  ///< the bundled catalogue
};

/// A model and where it came from.
struct ModelInput {
  /// The model; of a checkpoint directory with the weights that its files hold.
  ModelConfig model;
  /// Where from.
  ModelOrigin origin = ModelOrigin::kPath;
  /// File or directory, or the catalogue's name for it.
  std::string path;
};

/// Reads a model: a path if there is one, else a name of the local Hugging Face cache, else one of
/// the catalogue. Throws an input `Failure`; for what is none of them it names the nearest.
[[nodiscard]] ModelInput read_model_input(const std::string& text);

/// As `read_model_input`, the model alone.
[[nodiscard]] ModelConfig read_model(const std::string& text);

}  // namespace kvpool::cli
