// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/memory/device_queue.hpp>

#include <cstdint>
#include <memory>

namespace kvpool {

/// A queue on the host that copies at once, in the calling thread: every ticket is complete.
class HostQueue {
 public:
  /// An empty queue.
  HostQueue();

  /// See `DeviceQueue`.
  Result<void> copy_async(std::uintptr_t destination, std::uintptr_t source, Bytes size);
  /// See `DeviceQueue`.
  Result<Ticket> record();
  /// True for every ticket of this queue.
  Result<bool> query(Ticket ticket);
  /// Returns at once.
  Result<void> wait(Ticket ticket);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

static_assert(DeviceQueue<HostQueue>);

}  // namespace kvpool
