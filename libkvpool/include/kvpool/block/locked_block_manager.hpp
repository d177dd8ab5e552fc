// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/block_manager.hpp>

#include <concepts>
#include <functional>
#include <mutex>
#include <type_traits>
#include <utility>

namespace kvpool {

/// A block manager that several threads may use: every call runs under one `std::mutex`. Several
/// calls that belong together, such as a step's `begin_step` and its appends, are one `with`.
///
/// Spans that a call returns (`view`, `copies`, `shortage`) are valid only inside its `with`: copy
/// what is needed out of them.
class LockedBlockManager {
 public:
  /// Takes the manager over.
  explicit LockedBlockManager(BlockManager manager) noexcept : manager_{std::move(manager)} {}

  /// Runs `call(manager)` under the lock and returns what it returns, which is no reference.
  /// @pre `call` does not use this object: the mutex is not recursive
  template <std::invocable<BlockManager&> Call>
    requires(!std::is_reference_v<std::invoke_result_t<Call, BlockManager&>>)
  auto with(Call&& call) {
    const std::scoped_lock lock{mutex_};
    return std::invoke(std::forward<Call>(call), manager_);
  }
  /// The same for calls that only read.
  template <std::invocable<const BlockManager&> Call>
    requires(!std::is_reference_v<std::invoke_result_t<Call, const BlockManager&>>)
  auto with(Call&& call) const {
    const std::scoped_lock lock{mutex_};
    return std::invoke(std::forward<Call>(call), std::as_const(manager_));
  }

  /// Gives the manager back. @pre no other thread uses this object any more
  [[nodiscard]] BlockManager take() && noexcept { return std::move(manager_); }

 private:
  mutable std::mutex mutex_;
  BlockManager manager_;
};

}  // namespace kvpool
