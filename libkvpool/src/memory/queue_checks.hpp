// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/memory/device_queue.hpp>

#include <cstdint>

namespace kvpool {

/// `invalid_argument` unless a queue can copy this.
[[nodiscard]] Result<void> check_copy(std::uintptr_t destination, std::uintptr_t source,
                                      Bytes size);

/// `invalid_argument` unless the ticket is one of the first `recorded`.
[[nodiscard]] Result<void> check_ticket(Ticket ticket, std::uint64_t recorded);

/// Copies now. @pre check_copy(destination, source, size)
void copy_now(std::uintptr_t destination, std::uintptr_t source, Bytes size);

}  // namespace kvpool
