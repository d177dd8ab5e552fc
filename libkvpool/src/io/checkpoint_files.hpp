// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/io/safetensors.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kvpool::io::detail {

/// Tensors of all files of a checkpoint.
struct CheckpointTensors {
  /// By file, then by the order of their data.
  std::vector<StoredTensor> tensors;
  /// How many files; 0 when the directory has no safetensors.
  std::int64_t files = 0;
  /// `metadata.total_size` of the index, if there is one.
  std::optional<std::int64_t> index_total{};
};

/// Reads the headers of the files that an engine would load from a directory. What an index says
/// is checked against them.
[[nodiscard]] Result<CheckpointTensors> read_tensors(const std::filesystem::path& directory);

/// `tie_word_embeddings` of a config file, if it is readable and says so.
[[nodiscard]] std::optional<bool> read_tied(const std::string& config);

}  // namespace kvpool::io::detail
