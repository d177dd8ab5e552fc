// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "spelling.hpp"

#include <algorithm>
#include <vector>

namespace kvpool::cli {
namespace {

/// Texts longer than this are no typing mistakes of ours.
constexpr std::size_t kLongestName = 64;
/// Up to one edit in this many letters is a typing mistake.
constexpr std::size_t kLettersPerEdit = 3;

[[nodiscard]] std::string without_separators(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter != '-' && letter != '_' && letter != '.' && letter != ' ') {
      out += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    }
  }
  return out;
}

}  // namespace

bool contains_loosely(std::string_view text, std::string_view part) {
  return without_separators(text).find(without_separators(part)) != std::string::npos;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> previous(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    previous[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

std::string_view nearest(std::string_view text, std::span<const std::string_view> candidates) {
  if (text.size() < 2 || text.size() > kLongestName) {
    return {};
  }
  const std::size_t limit =
      std::max<std::size_t>(1, (text.size() + kLettersPerEdit - 1) / kLettersPerEdit);
  std::size_t best = limit + 1;
  std::string_view found;
  for (const std::string_view candidate : candidates) {
    std::size_t distance = edit_distance(text, candidate);
    if (distance > 1 && text.size() > 2 && candidate.starts_with(text)) {
      distance = 1;
    }
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view text, std::span<const std::string_view> candidates,
                         std::string_view prefix) {
  const std::string_view found = nearest(text, candidates);
  if (found.empty()) {
    return {};
  }
  return std::string{"; did you mean '"}.append(prefix).append(found).append("'?");
}

std::string joined(std::span<const std::string_view> words) {
  std::string out;
  for (const std::string_view word : words) {
    out.append(out.empty() ? "" : ", ").append(word);
  }
  return out;
}

}  // namespace kvpool::cli
