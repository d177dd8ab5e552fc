// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/page_table_view.hpp>

#include <cstdint>

namespace kvpool::kernels {

/// a / b of numbers that are not negative. A division of 64 bits takes a GPU several times as long
/// as one of 32, and almost all numbers fit into those.
KVPOOL_HOST_DEVICE constexpr std::int64_t quotient(std::int64_t a, std::int64_t b) {
  const bool small = ((a | b) >> 32) == 0;
  return small ? static_cast<std::int64_t>(static_cast<std::uint32_t>(a) /
                                           static_cast<std::uint32_t>(b))
               : a / b;
}

}  // namespace kvpool::kernels
