// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// How the simple attention kernel divides its work.
#pragma once

#include <kvpool/kernels/cache_operand.hpp>

namespace kvpool::kernels::simple_attention {

/// Threads of a block. Every vector of the longest output row (fp32: 576 / 4 = 144) has a thread of
/// its own; shorter rows have several, each for a part of the keys.
inline constexpr int kThreads = 256;
/// Keys of a tile: scores that lie in shared memory at a time.
inline constexpr int kTile = 64;
/// Lanes that share the dot product of one key: 8 vectors of 16 bytes are one line of 128 bytes.
inline constexpr int kLanesPerKey = 8;

static_assert(kThreads >= 2 * kTile, "one thread finds the address of each K row and V row");
static_assert(kThreads * 4 >= kMaxDim, "one thread for each vector of the longest fp32 row");
static_assert(kTile == 2 * 32, "each lane takes two scores of a tile");

}  // namespace kvpool::kernels::simple_attention
