// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "catalogue/catalogue.hpp"

#include <kvpool/io/model_config_io.hpp>

#include <algorithm>
#include <utility>

namespace kvpool::cli {
namespace {

/// Lower case, without separators; the owner's slash stays.
[[nodiscard]] std::string loose(std::string_view name) {
  std::string out;
  for (const char letter : name) {
    if (letter != '-' && letter != '_' && letter != '.' && letter != ' ') {
      out += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    }
  }
  return out;
}

[[nodiscard]] std::string_view without_owner(std::string_view name) {
  const std::size_t slash = name.find('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

}  // namespace

const CatalogueEntry* find_entry(std::string_view name) {
  const std::string wanted = loose(name);
  const bool has_owner = name.find('/') != std::string_view::npos;
  const CatalogueEntry* found = nullptr;
  for (const CatalogueEntry& entry : catalogue()) {
    if (loose(has_owner ? entry.name : without_owner(entry.name)) != wanted) {
      continue;
    }
    if (found != nullptr) {
      return nullptr;  // two owners have a model of this name
    }
    found = &entry;
  }
  return found;
}

Result<ModelConfig> model_of(const CatalogueEntry& entry) {
  auto model = io::parse_model_config(entry.config, "catalogue: " + std::string{entry.name});
  if (model) {
    model->name = std::string{entry.name};
  }
  return model;
}

std::vector<std::string_view> catalogue_names() {
  const auto entries = catalogue();
  std::vector<std::string_view> names(entries.size());
  std::ranges::transform(entries, names.begin(), &CatalogueEntry::name);
  return names;
}

}  // namespace kvpool::cli
