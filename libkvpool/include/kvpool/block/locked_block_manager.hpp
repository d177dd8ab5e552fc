// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>

#include <mutex>
#include <utility>

namespace kvpool {

/// A block manager that several threads may use: every call runs under one `std::mutex`. Views and
/// spans that a call returns are only valid inside `with`.
class LockedBlockManager {
 public:
  /// Takes the manager over.
  explicit LockedBlockManager(BlockManager manager) noexcept : manager_{std::move(manager)} {}

  /// Runs `call(manager)` under the lock and returns what it returns.
  template <typename Call>
  decltype(auto) with(Call&& call) {
    const std::scoped_lock lock{mutex_};
    return std::forward<Call>(call)(manager_);
  }
  /// Runs `call(manager)` under the lock, for calls that only read.
  template <typename Call>
  decltype(auto) with(Call&& call) const {
    const std::scoped_lock lock{mutex_};
    return std::forward<Call>(call)(manager_);
  }

 private:
  mutable std::mutex mutex_;
  BlockManager manager_;
};

}  // namespace kvpool
