// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// How one thread block of packed attention is made.
#pragma once

#include <kvpool/kernels/cache_operand.hpp>

#include "smxx/packed_attention/plan_format.hpp"

#include <bit>
#include <cstdint>

namespace kvpool::kernels::packed {

/// One instantiation. Query rows (token, head of the group) are packed into `row_tiles` tiles of 16
/// rows; a stream of keys is the work of `stream_warps` warps that divide the row tiles among them.
template <ElementType type_, int dim_, int row_tiles_, int warps_, int stream_warps_, int steps_,
          int stages_, int ctas_>
struct Traits {
  static constexpr ElementType kType = type_;
  static constexpr int kDim = dim_;
  static constexpr int kRowTiles = row_tiles_;
  static constexpr int kRows = 16 * kRowTiles;
  static constexpr int kWarps = warps_;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kStreamWarps = stream_warps_;
  static constexpr int kStreams = kWarps / kStreamWarps;
  static constexpr int kWarpTiles = kRowTiles / kStreamWarps;
  static constexpr int kStages = stages_;
  /// Thread blocks that fit on one multiprocessor together.
  static constexpr int kBlocksPerMultiprocessor = ctas_;

  static constexpr int kRowBytes = 2 * kDim;
  /// 16-byte chunks of a row.
  static constexpr int kChunks = kRowBytes / 16;
  /// Steps that a stream takes at a time.
  static constexpr int kSteps = steps_;
  /// Keys that it takes at a time.
  static constexpr int kKeys = kSteps * kStep;
  static constexpr int kOperandBytes = kStep * kRowBytes;
  static constexpr int kStageBytes = kSteps * 2 * kOperandBytes;
  static constexpr int kRingBytes = kStages * kStageBytes;
  /// Queries stay in registers where they leave room for the outputs.
  static constexpr bool kQueriesInRegisters =
      kWarpTiles * (kDim / 4 + kDim / 2 + 8 * kSteps) <= 150;

  /// Floats from one row of a warp's results to the next in shared memory: the rows of a store fall
  /// into different banks.
  static constexpr int kResultStride = kDim + 8;

  static constexpr int kQueryOffset = kStreams * kRingBytes;
  static constexpr int kQueryBytes = kRows * kRowBytes;
  static constexpr int kLimitOffset = kQueryOffset + kQueryBytes;
  static constexpr int kMaximumOffset = kLimitOffset + 2 * kRows * 4;
  static constexpr int kSumOffset = kMaximumOffset + kStreams * kRows * 4;
  /// Two items that wait to be merged.
  static constexpr int kPartOffset = kSumOffset + kStreams * kRows * 4;
  static constexpr int kSharedBytes = kPartOffset + 2 * 32;

  /// Threads that merge one row of the streams' results: a power of two.
  static constexpr int kRowThreads =
      static_cast<int>(std::bit_floor(static_cast<unsigned>(kThreads / kRows)));
  static_assert(kDim % (4 * kRowThreads) == 0);

  /// Columns of a unit of a partial result: the outputs of one row that are merged together.
  static constexpr int kUnitColumns = 32;
  static constexpr int kRowUnits = kDim / kUnitColumns;
  /// Floats of one partial result: outputs, then a log-sum-exp for each unit.
  static constexpr int kSlotFloats = kRows * (kDim + kRowUnits);

  static_assert(kDim == 64 || kDim == 128);
  static_assert(kType == ElementType::kBf16 || kType == ElementType::kFp16);
  static_assert(kWarps % kStreamWarps == 0 && kRowTiles % kStreamWarps == 0);
  static_assert(kRows * kResultStride * 4 <= kRingBytes, "results take the place of the ring");
  static_assert(kSharedBytes * kBlocksPerMultiprocessor <= (227 + 1) * 1024);
};

}  // namespace kvpool::kernels::packed
