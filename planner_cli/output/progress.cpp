// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "output/progress.hpp"

#include "output/numbers.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace kvpool::cli {
namespace {

constexpr std::size_t kWidestBar = 40;
constexpr std::size_t kUsualWidth = 80;

[[nodiscard]] bool is_terminal() {
  const char* term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): before any thread
  return term != nullptr && std::strcmp(term, "dumb") != 0 && isatty(STDERR_FILENO) == 1;
}

[[nodiscard]] std::size_t terminal_width() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsualWidth;
}

void put(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace

ProgressBar::ProgressBar(std::size_t total) : total_{total}, active_{is_terminal()} {}

ProgressBar::~ProgressBar() {
  if (drawn_) {
    put("\r\x1b[K");
  }
}

void ProgressBar::show(std::size_t done) {
  if (!active_ || total_ == 0) {
    return;
  }
  const std::string count = count_text(static_cast<std::int64_t>(done)) + "/" +
                            count_text(static_cast<std::int64_t>(total_));
  std::string line = count;
  // One column stays free: some terminals wrap a full line.
  const std::size_t room = terminal_width() - 1;
  if (room > count.size() + 8) {
    const std::size_t width = std::min(kWidestBar, room - count.size() - 3);
    const std::size_t filled = std::min(done * width / total_, width);
    line = "[" + std::string(filled, '#') + std::string(width - filled, ' ') + "] " + count;
  }
  put("\r" + line.substr(0, room) + "\x1b[K");
  drawn_ = true;
}

}  // namespace kvpool::cli
