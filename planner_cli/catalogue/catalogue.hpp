// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/model/model_config.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::cli {

/// A model that is known by name: the figures of its config, and where they come from.
struct CatalogueEntry {
  /// Owner and name, as on the Hugging Face hub.
  std::string_view name;
  /// The file that the figures were taken from.
  std::string_view source;
  /// A config with the keys that decide caches and weights.
  std::string_view config;
};

/// All entries, by name. Built from the files of `catalogue/entries`.
[[nodiscard]] std::span<const CatalogueEntry> catalogue() noexcept;

/// The entry of a name: with its owner or, where that is not ambiguous, without; case and the
/// separators `-`, `_`, `.` and space aside. Null when there is none.
[[nodiscard]] const CatalogueEntry* find_entry(std::string_view name);

/// The model of an entry. An error names the entry as its file; a test demands that there is none.
[[nodiscard]] Result<ModelConfig> model_of(const CatalogueEntry& entry);

/// Names of all entries.
[[nodiscard]] std::vector<std::string_view> catalogue_names();

}  // namespace kvpool::cli
