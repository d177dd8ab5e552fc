// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "output/terminal.hpp"

#include "exit_codes.hpp"
#include "output/report.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kvpool::cli {

namespace {

/// True if `word` stands in `text` as it is, and not as part of a longer word or number.
[[nodiscard]] bool has_word(std::string_view text, std::string_view word) noexcept {
  const auto in_word = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !in_word(text[at - 1])) && (end == text.size() || !in_word(text[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool use_colour() {
  const char* no_color = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe): one thread
  const char* term = std::getenv("TERM");          // NOLINT(concurrency-mt-unsafe): one thread
  const bool refused = no_color != nullptr && *no_color != '\0';
  const bool dumb = term == nullptr || std::strcmp(term, "dumb") == 0;
  return !refused && !dumb && isatty(STDOUT_FILENO) == 1;
}

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    throw Failure{Error{ErrorCode::kIo,
                        "writing to standard output failed: " +
                            std::string{std::strerror(errno)}}};  // NOLINT(concurrency-mt-unsafe)
  }
}

void print_error(const Error& error) {
  std::string text = "kvplan: error: ";
  if (!error.file.empty()) {
    text += error.file + ": ";
  }
  if (!error.key.empty()) {
    text += error.key + ": ";
  }
  text += error.message;
  if (!error.value.empty() && !has_word(error.message, error.value)) {
    text += " (value: " + error.value + ")";
  }
  if (error.code == ErrorCode::kInternal) {
    text += " (this is a bug in kvpool: please report it)";
  }
  text = printable(text) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void print_note(std::string_view note) {
  const std::string text = "kvplan: note: " + printable(std::string{note}) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace kvpool::cli
