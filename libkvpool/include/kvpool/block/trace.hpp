// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>
#include <kvpool/core/result.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvpool {

/// A manager whose calls are recorded, so that what happened can be run again.
///
/// Threads: one caller at a time. Recording allocates.
class TracingBlockManager {
 public:
  /// Records the calls to `manager`, which outlives this.
  explicit TracingBlockManager(BlockManager& manager);
  TracingBlockManager(TracingBlockManager&& other) noexcept;
  TracingBlockManager& operator=(TracingBlockManager&& other) noexcept;
  TracingBlockManager(const TracingBlockManager&) = delete;
  TracingBlockManager& operator=(const TracingBlockManager&) = delete;
  ~TracingBlockManager();

  /// The calls so far, as text: one line each, after a first line with the format's version.
  [[nodiscard]] const std::string& trace() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs a trace against a fresh manager of the same pools and options.
/// @return the number of calls; `kInvalidArgument`, with the line, for a trace that does not parse
///   or an answer that differs from the recorded one
[[nodiscard]] Result<std::int64_t> replay(std::string_view trace, BlockManager& manager);

}  // namespace kvpool
