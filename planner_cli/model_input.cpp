// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "model_input.hpp"

#include <kvpool/io/model_config_io.hpp>

#include "exit_codes.hpp"
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

}  // namespace

ModelConfig read_model(const std::string& path) {
  std::error_code failed;
  if (!fs::exists(path, failed)) {
    const std::string near = near_path(path);
    throw Failure{
        ExitCode::kBadInput,
        Error{ErrorCode::kNotFound,
              "there is no such file or directory; the path of a config.json or of a checkpoint "
              "directory is expected (the catalogue of model names is not in this version)" +
                  (near.empty() ? std::string{} : "; did you mean '" + near + "'?"),
              path, "", ""}};
  }
  return value_or_fail(io::read_model_config(path));
}

}  // namespace kvpool::cli
