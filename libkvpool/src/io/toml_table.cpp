// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "io/toml_table.hpp"

namespace kvpool::io::detail {
namespace {

/// Up to one edit in this many letters is taken for a typing mistake.
constexpr std::size_t kLettersPerEdit = 3;
/// Longer words are not compared.
constexpr std::size_t kLongestWord = 64;

/// Single edits (insert, delete, replace, swap neighbours) from one word to the other.
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

}  // namespace

std::string advice(std::string_view word, Words known) {
  std::size_t best = std::max<std::size_t>(1, word.size() / kLettersPerEdit) + 1;
  std::string_view found;
  for (const std::string_view candidate : known) {
    if (word.size() > kLongestWord) {
      break;
    }
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found.empty() ? fmt::format("; write one of {}", fmt::join(known, ", "))
                       : fmt::format("; did you mean '{}'?", found);
}

std::string placed(const toml::source_position& position, std::string_view message) {
  return fmt::format("line {}, column {}: {}", position.line, position.column, message);
}

}  // namespace kvpool::io::detail
