// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/host_queue.hpp>

#include "memory/queue_checks.hpp"

namespace kvpool {

struct HostQueue::State {
  std::uint64_t recorded = 0;
};

HostQueue::HostQueue() : state_{std::make_shared<State>()} {}

Result<void> HostQueue::copy_async(std::uintptr_t destination, std::uintptr_t source, Bytes size) {
  if (auto valid = check_copy(destination, source, size); !valid) {
    return valid;
  }
  copy_now(destination, source, size);
  return {};
}

Result<Ticket> HostQueue::record() { return Ticket{state_->recorded++}; }

Result<bool> HostQueue::query(Ticket ticket) {
  if (auto valid = check_ticket(ticket, state_->recorded); !valid) {
    return std::move(valid).error();
  }
  return true;
}

Result<void> HostQueue::wait(Ticket ticket) { return check_ticket(ticket, state_->recorded); }

}  // namespace kvpool
