// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::cli {

/// Where the Hugging Face hub keeps its downloads, from the environment: `HF_HUB_CACHE`,
/// `HUGGINGFACE_HUB_CACHE`, `HF_HOME/hub`, `XDG_CACHE_HOME/huggingface/hub`,
/// `~/.cache/huggingface/hub`; the first that is set. Empty without any.
[[nodiscard]] std::string hub_cache_folder();

/// The checkpoint directory of `owner/name` in a hub cache: the snapshot that `refs/main` names,
/// else the only one. Nothing when there is none with a `config.json`, or the name is none.
[[nodiscard]] std::optional<std::string> find_snapshot(const std::string& cache,
                                                       std::string_view name);

/// `owner/name` of all models in a hub cache, in order.
[[nodiscard]] std::vector<std::string> cached_names(const std::string& cache);

}  // namespace kvpool::cli
