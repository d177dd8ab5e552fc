// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace kvpool::cli {

/// A bar on standard error that says how far something is; nothing where that is no terminal, or a
/// dumb one. Gone without a trace at the end.
class ProgressBar {
 public:
  /// @param total what there is to do
  explicit ProgressBar(std::size_t total);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Draws the bar anew.
  void show(std::size_t done);

 private:
  std::size_t total_;
  bool active_;
  bool drawn_ = false;
};

}  // namespace kvpool::cli
