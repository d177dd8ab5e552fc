// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/layout/pool_descriptor.hpp>

#include <cstdint>
#include <vector>

namespace kvpool::kernels {

/// Table entries of the pages of a group that a validation looks at: the first and the last usable
/// one, and those around the offsets at which 32-bit arithmetic breaks. Ascending.
[[nodiscard]] std::vector<std::int64_t> boundary_entries(const PoolDescriptor& pool,
                                                         std::size_t group);

/// A number that depends on every bit of both.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t seed, std::uint64_t value) noexcept {
  std::uint64_t x = seed ^ (value * 0x9E3779B97F4A7C15U);
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

}  // namespace kvpool::kernels
