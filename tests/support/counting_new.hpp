// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts heap allocations of the program: link counting_new.cpp, which replaces `operator new`.
#pragma once

#include <cstdint>

namespace kvpool::test {

/// Calls of any `operator new` so far, of all threads.
[[nodiscard]] std::int64_t allocations() noexcept;

}  // namespace kvpool::test
