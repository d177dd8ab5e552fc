// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "model_input.hpp"

#include <kvpool/io/checkpoint.hpp>

#include "catalogue/catalogue.hpp"
#include "exit_codes.hpp"
#include "hub_cache.hpp"
#include "spelling.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

namespace kvpool::cli {
namespace {

namespace fs = std::filesystem;

/// More entries than this are not looked at.
constexpr std::size_t kMostEntries = 1000;

/// What a typing mistake in a file name may be about: case and separators aside, without `.json`.
[[nodiscard]] std::string loose_name(std::string_view name) {
  if (name.ends_with(".json")) {
    name.remove_suffix(5);
  }
  std::string loose;
  for (const char letter : name) {
    if (letter != '-' && letter != '_' && letter != '.' && letter != ' ') {
      loose += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    }
  }
  return loose;
}

/// The config or folder beside `path` whose name is nearest, or empty.
[[nodiscard]] std::string near_path(const fs::path& path) {
  std::error_code failed;
  const fs::path parent = path.parent_path();
  std::vector<std::string> names;
  for (fs::directory_iterator entry{parent.empty() ? fs::path{"."} : parent, failed}, end;
       !failed && entry != end && names.size() < kMostEntries; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.ends_with(".json") || entry->is_directory(ignored)) {
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  std::vector<std::string> loose(names.size());
  std::ranges::transform(names, loose.begin(), loose_name);
  const std::vector<std::string_view> candidates{loose.begin(), loose.end()};
  const std::string_view found = nearest(loose_name(path.filename().string()), candidates);
  const auto at = std::ranges::find(candidates, found);
  if (found.empty() || at == candidates.end()) {
    return {};
  }
  return (parent / names[static_cast<std::size_t>(at - candidates.begin())]).string();
}

/// Names of models that a mistyped one may mean.
[[nodiscard]] std::string near_name(std::string_view name, const std::string& cache) {
  const std::vector<std::string> cached = cached_names(cache);
  std::vector<std::string_view> names = catalogue_names();
  names.insert(names.end(), cached.begin(), cached.end());
  if (const std::string_view found = nearest(name, names); !found.empty()) {
    return std::string{found};
  }
  // Without the owner, or the name of a model whose owner was left out.
  const std::string_view bare = name.substr(name.find('/') + 1);
  std::vector<std::string_view> bare_names(names.size());
  std::ranges::transform(names, bare_names.begin(),
                         [](std::string_view known) { return known.substr(known.find('/') + 1); });
  const std::string_view found = nearest(bare, bare_names);
  const auto at = std::ranges::find(bare_names, found);
  return found.empty() || at == bare_names.end()
             ? std::string{}
             : std::string{names[static_cast<std::size_t>(at - bare_names.begin())]};
}

[[nodiscard]] ModelInput from_catalogue(const CatalogueEntry& entry) {
  ModelInput input{.model = value_or_fail(model_of(entry)),
                   .origin = ModelOrigin::kCatalogue,
                   .path = "catalogue: " + std::string{entry.name}};
  input.model.facts.insert(input.model.facts.begin(),
                           ConfigFact{.figure = "model",
                                      .key = "catalogue",
                                      .value = std::string{entry.name},
                                      .rule = "figures from " + std::string{entry.source}});
  return input;
}

}  // namespace

ModelInput read_model_input(const std::string& text) {
  std::error_code failed;
  if (fs::exists(text, failed)) {
    return {.model = value_or_fail(io::read_checkpoint(text)),
            .origin = ModelOrigin::kPath,
            .path = text};
  }
  const std::string cache = hub_cache_folder();
  if (const auto snapshot = find_snapshot(cache, text)) {
    ModelInput input{.model = value_or_fail(io::read_checkpoint(*snapshot)),
                     .origin = ModelOrigin::kHubCache,
                     .path = *snapshot};
    input.model.name = text;
    input.model.facts.insert(input.model.facts.begin(),
                             ConfigFact{.figure = "model",
                                        .key = "hub cache",
                                        .value = text,
                                        .rule = "read from " + *snapshot});
    return input;
  }
  if (const CatalogueEntry* entry = find_entry(text); entry != nullptr) {
    return from_catalogue(*entry);
  }
  std::string near = near_path(text);
  near = near.empty() ? near_name(text, cache) : near;
  throw Failure{ExitCode::kBadInput,
                Error{ErrorCode::kNotFound,
                      "there is no such file or directory, no model of this name in the local "
                      "Hugging Face cache, and none in the catalogue (kvplan models)" +
                          (near.empty() ? std::string{} : "; did you mean '" + near + "'?"),
                      text, "", ""}};
}

ModelConfig read_model(const std::string& text) { return read_model_input(text).model; }

}  // namespace kvpool::cli
