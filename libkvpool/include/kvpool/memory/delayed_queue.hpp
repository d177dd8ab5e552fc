// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/memory/device_queue.hpp>

#include <cstdint>
#include <memory>

namespace kvpool {

/// A fake device for tests: copies between host addresses that run only when the test says so, or
/// when someone waits. A copy reads its source when it runs, so a staging buffer that is written
/// again too early, or freed, is seen as wrong data or by a sanitizer. Work still pending when the
/// last copy of the handle goes is dropped.
class DelayedQueue {
 public:
  /// An empty queue.
  DelayedQueue();

  /// See `DeviceQueue`.
  Result<void> copy_async(std::uintptr_t destination, std::uintptr_t source, Bytes size);
  /// See `DeviceQueue`.
  Result<Ticket> record();
  /// Whether all work before the ticket has run; runs nothing itself.
  Result<bool> query(Ticket ticket);
  /// Runs the work before the ticket.
  Result<void> wait(Ticket ticket);

  /// Runs the next `copies` copies, or all when there are fewer. Tickets complete when the last
  /// copy before them has run.
  void advance(std::int64_t copies = 1);
  /// Runs everything.
  void advance_all();
  /// Copies that have not run.
  [[nodiscard]] std::int64_t pending() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

static_assert(DeviceQueue<DelayedQueue>);

}  // namespace kvpool
