// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/queue_checks.hpp"

#include "core/format.hpp"

#include <fmt/format.h>

#include <cstring>

namespace kvpool {

Result<void> check_copy(std::uintptr_t destination, std::uintptr_t source, Bytes size) {
  if (size.count() < 0 || destination == 0 || source == 0) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("cannot copy {} from {} to {}: pass two addresses and 0 B "
                                        "or more",
                                        format_bytes(size), format_address(source),
                                        format_address(destination))};
  }
  return {};
}

Result<void> check_ticket(Ticket ticket, std::uint64_t recorded) {
  if (ticket.value() >= recorded) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("ticket {} was not recorded on this queue, which has "
                                        "recorded {}",
                                        ticket.value(), recorded)};
  }
  return {};
}

void copy_now(std::uintptr_t destination, std::uintptr_t source, Bytes size) {
  if (size.count() == 0) {
    return;
  }
  std::memmove(reinterpret_cast<void*>(destination),   // NOLINT: an address is a pointer here
               reinterpret_cast<const void*>(source),  // NOLINT
               static_cast<std::size_t>(size.count()));
}

}  // namespace kvpool
