// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/delayed_queue.hpp>

#include "memory/queue_checks.hpp"

#include <deque>
#include <utility>
#include <vector>

namespace kvpool {

struct DelayedQueue::State {
  struct Copy {
    std::uintptr_t destination;
    std::uintptr_t source;
    Bytes size;
  };

  void run_next() {
    const Copy copy = copies.front();
    copies.pop_front();
    ++completed;
    copy_now(copy.destination, copy.source, copy.size);
  }

  std::deque<Copy> copies;
  std::int64_t enqueued = 0;
  std::int64_t completed = 0;
  /// Of each ticket, the copies that were enqueued before it.
  std::vector<std::int64_t> tickets;
};

DelayedQueue::DelayedQueue() : state_{std::make_shared<State>()} {}

Result<void> DelayedQueue::copy_async(std::uintptr_t destination, std::uintptr_t source,
                                      Bytes size) {
  if (auto valid = check_copy(destination, source, size); !valid) {
    return valid;
  }
  if (size.count() > 0) {
    state_->copies.push_back({.destination = destination, .source = source, .size = size});
    ++state_->enqueued;
  }
  return {};
}

Result<Ticket> DelayedQueue::record() {
  state_->tickets.push_back(state_->enqueued);
  return Ticket{state_->tickets.size() - 1};
}

Result<bool> DelayedQueue::query(Ticket ticket) {
  if (auto valid = check_ticket(ticket, state_->tickets.size()); !valid) {
    return std::move(valid).error();
  }
  return state_->completed >= state_->tickets[ticket.value()];
}

Result<void> DelayedQueue::wait(Ticket ticket) {
  if (auto valid = check_ticket(ticket, state_->tickets.size()); !valid) {
    return valid;
  }
  while (state_->completed < state_->tickets[ticket.value()]) {
    state_->run_next();
  }
  return {};
}

void DelayedQueue::advance(std::int64_t copies) {
  for (; copies > 0 && !state_->copies.empty(); --copies) {
    state_->run_next();
  }
}

void DelayedQueue::advance_all() { advance(pending()); }

std::int64_t DelayedQueue::pending() const { return state_->enqueued - state_->completed; }

}  // namespace kvpool
