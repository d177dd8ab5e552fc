// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "hub_cache.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace kvpool::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";
constexpr std::string_view kSeparator = "--";
/// More entries than this are not looked at.
constexpr std::size_t kMostEntries = 10'000;
/// A revision is the 40 digits of a commit.
constexpr std::size_t kLongestRevision = 64;

[[nodiscard]] std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return value == nullptr ? std::string{} : value;
}

/// A part of a repository's name: no path, nothing hidden.
[[nodiscard]] bool is_plain(std::string_view part) {
  return !part.empty() && part.size() <= 128 && part.front() != '.' &&
         std::ranges::all_of(part, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_' || c == '.';
         });
}

[[nodiscard]] bool has_config(const fs::path& folder) {
  std::error_code failed;
  return fs::is_regular_file(folder / "config.json", failed);
}

/// The revision that a ref names, or empty.
[[nodiscard]] std::string read_ref(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) {
    return {};
  }
  std::array<char, kLongestRevision> text{};
  std::ifstream file{path, std::ios::binary};
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  std::string revision{text.data(), static_cast<std::size_t>(file.gcount())};
  while (!revision.empty() && (revision.back() == '\n' || revision.back() == '\r')) {
    revision.pop_back();
  }
  return is_plain(revision) ? revision : std::string{};
}

}  // namespace

std::string hub_cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (std::string folder = variable(name); !folder.empty()) {
      return folder;
    }
  }
  if (const std::string home = variable("HF_HOME"); !home.empty()) {
    return (fs::path{home} / "hub").string();
  }
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) {
    return (fs::path{cache} / "huggingface" / "hub").string();
  }
  if (const std::string home = variable("HOME"); !home.empty()) {
    return (fs::path{home} / ".cache" / "huggingface" / "hub").string();
  }
  return {};
}

std::optional<std::string> find_snapshot(const std::string& cache, std::string_view name) {
  const std::size_t slash = name.find('/');
  const std::string_view owner = name.substr(0, slash);
  const std::string_view model = slash == std::string_view::npos ? "" : name.substr(slash + 1);
  if (cache.empty() || !is_plain(owner) || !is_plain(model)) {
    return std::nullopt;
  }
  const fs::path repository = fs::path{cache} / (std::string{kPrefix}.append(owner) +
                                                 std::string{kSeparator}.append(model));
  const fs::path snapshots = repository / "snapshots";
  if (const std::string main = read_ref(repository / "refs" / "main");
      !main.empty() && has_config(snapshots / main)) {
    return (snapshots / main).string();
  }
  std::error_code failed;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry{snapshots, failed}, end;
       !failed && entry != end && found.size() < 2; entry.increment(failed)) {
    if (has_config(entry->path())) {
      found.push_back(entry->path());
    }
  }
  return found.size() == 1 ? std::optional{found.front().string()} : std::nullopt;
}

std::vector<std::string> cached_names(const std::string& cache) {
  std::vector<std::string> names;
  if (cache.empty()) {
    return names;
  }
  std::error_code failed;
  for (fs::directory_iterator entry{cache, failed}, end;
       !failed && entry != end && names.size() < kMostEntries; entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    if (!name.starts_with(kPrefix)) {
      continue;
    }
    name.erase(0, kPrefix.size());
    if (const std::size_t at = name.find(kSeparator); at != std::string::npos) {
      name.replace(at, kSeparator.size(), "/");
      names.push_back(std::move(name));
    }
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace kvpool::cli
