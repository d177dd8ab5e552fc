// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>

#include <cstdint>
#include <string>

namespace kvpool {

/// What an engine's own allocator holds for a pool: one range of addresses. A pool may have
/// several.
struct Allocation {
  /// Name of a pool of the plan (`target`, `draft`, `target/full`), or a role whose pools are meant
  /// together.
  std::string pool;
  /// First byte.
  std::uintptr_t address = 0;
  /// Length.
  Bytes bytes;

  /// Field by field.
  friend bool operator==(const Allocation&, const Allocation&) = default;
};

}  // namespace kvpool
