// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_files.hpp"

#include "io/json_reader.hpp"
#include "io/json_value.hpp"
#include "io/model_fields.hpp"
#include "io/text_file.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

namespace kvpool::io::detail {
namespace {

namespace fs = std::filesystem;

/// Names of files that hold a whole checkpoint, in the order in which they are looked for.
constexpr std::string_view kWholeNames[] = {"model.safetensors", "consolidated.safetensors"};
constexpr std::string_view kIndexNames[] = {"model.safetensors.index.json",
                                            "consolidated.safetensors.index.json"};
constexpr std::string_view kEnding = ".safetensors";
/// More files than any checkpoint has.
constexpr std::size_t kMostFiles = 10'000;

/// Tensors by file, as an index names them.
using Shards = std::map<std::string, std::vector<std::string>>;

[[nodiscard]] bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// A file of the directory itself: no path out of it, no hidden name.
[[nodiscard]] bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() < 256 && name.front() != '.' &&
         name.find_first_of("/\\") == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

/// The files that an engine would load, and what an index says.
struct Files {
  Shards shards;
  std::string index;
  std::optional<std::int64_t> index_total;
};

[[nodiscard]] Result<Files> read_index(const std::string& path) {
  auto text = read_text_file(path);
  if (!text) {
    return std::move(text).error();
  }
  const auto root = parse_json(*text, path);
  if (!root) {
    return root.error();
  }
  const Json* map = root->find("weight_map");
  if (map == nullptr || map->object() == nullptr) {
    return Error{ErrorCode::kInvalidArgument, "an index must have an object under this key", path,
                 "weight_map", map == nullptr ? std::string{} : map->shortened()};
  }
  Files files{.shards = {}, .index = path, .index_total = std::nullopt};
  if (const Json* metadata = root->find("metadata")) {
    const Json* total = metadata->find("total_size");
    if (total != nullptr && total->integer() != nullptr) {
      files.index_total = *total->integer();
    }
  }
  for (const Json::Member& member : *map->object()) {
    const std::string* file = member.value.text();
    if (file == nullptr || !is_plain_name(*file)) {
      return Error{ErrorCode::kInvalidArgument, "must be the name of a file in the directory", path,
                   "weight_map." + shorten(member.key, 100), member.value.shortened()};
    }
    files.shards[*file].push_back(member.key);
    if (files.shards.size() > kMostFiles) {
      return Error{ErrorCode::kInvalidArgument,
                   "names more files than a checkpoint has",
                   path,
                   "weight_map",
                   {}};
    }
  }
  return files;
}

/// All `*.safetensors` of a directory, by name.
[[nodiscard]] Shards all_files(const fs::path& directory) {
  Shards shards;
  std::error_code failed;
  for (fs::directory_iterator entry{directory, failed}, end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(kEnding) && is_file(entry->path()) && shards.size() < kMostFiles) {
      shards[name];
    }
  }
  return shards;
}

[[nodiscard]] Result<Files> find_files(const fs::path& directory) {
  for (std::size_t i = 0; i < std::size(kIndexNames); ++i) {
    const fs::path index = directory / kIndexNames[i];
    if (is_file(index)) {
      return read_index(index.string());
    }
    if (is_file(directory / kWholeNames[i])) {
      return Files{{{std::string{kWholeNames[i]}, {}}}, {}, {}};
    }
  }
  return Files{all_files(directory), {}, {}};
}

/// Every tensor that the index puts into a file is there. @pre `tensors` are of that file
[[nodiscard]] Result<void> check_index(const std::vector<std::string>& expected,
                                       std::span<const StoredTensor> tensors,
                                       const std::string& index, const std::string& file) {
  std::vector<std::string_view> names(tensors.size());
  std::ranges::transform(tensors, names.begin(),
                         [](const StoredTensor& tensor) { return std::string_view{tensor.name}; });
  std::ranges::sort(names);
  for (const std::string& name : expected) {
    if (!std::ranges::binary_search(names, std::string_view{name})) {
      return Error{ErrorCode::kInvalidArgument, "the file does not have this tensor", index,
                   "weight_map." + shorten(name, 100), file};
    }
  }
  return {};
}

}  // namespace

Result<CheckpointTensors> read_tensors(const fs::path& directory) {
  const auto files = find_files(directory);
  if (!files) {
    return files.error();
  }
  CheckpointTensors all;
  all.index_total = files->index_total;
  for (const auto& [name, expected] : files->shards) {
    auto tensors = read_safetensors_header((directory / name).string());
    if (!tensors) {
      Error error = std::move(tensors).error();
      if (error.code == ErrorCode::kNotFound && !files->index.empty()) {
        error.message = "there is no such file, though " + files->index +
                        " names it: is the download complete?";
      }
      return error;
    }
    if (auto checked = check_index(expected, *tensors, files->index, name); !checked) {
      return std::move(checked).error();
    }
    std::ranges::move(*tensors, std::back_inserter(all.tensors));
    ++all.files;
  }
  return all;
}

std::optional<bool> read_tied(const std::string& config) {
  const auto text = read_text_file(config);
  if (!text) {
    return std::nullopt;
  }
  const auto root = parse_json(*text, config);
  if (!root || root->object() == nullptr) {
    return std::nullopt;
  }
  try {
    return open_config(*root, config).boolean("tie_word_embeddings");
  } catch (const Refused&) {
    return std::nullopt;
  }
}

}  // namespace kvpool::io::detail
