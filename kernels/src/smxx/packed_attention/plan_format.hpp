// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a plan: a header, a record for each thread block, and one for each table row.
#pragma once

#include <kvpool/block/page_table_view.hpp>

#include <cstdint>
#include <type_traits>

namespace kvpool::kernels::packed {

/// Keys of a step: the greatest common divisor of all page sizes, so that no step crosses a page.
inline constexpr std::int32_t kStep = 16;

/// First bytes of a plan.
struct alignas(16) PlanHeader {
  std::int64_t total = 0;        ///< length of the line
  double inverse = 0.0;          ///< 1 / each
  std::int32_t each = 0;         ///< least length of a block's part
  std::int32_t longer = 0;       ///< so many blocks, evenly spread, take one more
  std::int32_t blocks = 0;       ///< blocks with work
  std::int32_t split_steps = 0;  ///< 0: balanced
  std::int32_t start = 0;        ///< what beginning an item costs
  std::int32_t reserved[3] = {};
};

/// An item of which a block computes a part, and where the parts' results are.
struct PlanPart {
  std::int32_t count = 0;       ///< parts, each of another block; below 2: the block has it whole
  std::int32_t first_slot = 0;  ///< slot of the first part; its block is half of it, rounded down
};

/// What a block takes, and what it needs of its first row: all that it reads before it begins.
struct alignas(16) PlanBlock {
  std::int32_t row = 0;         ///< first row
  std::int32_t item = 0;        ///< item in the row
  std::int32_t offset = 0;      ///< cost in front of it in the item
  std::int32_t cost = 0;        ///< length of the block's part of the line; 0: no work
  std::int32_t first_step = 0;  ///< the row's, as in `PlanRow`
  std::int32_t length = 0;
  std::int32_t q_first = 0;
  std::int32_t q_count = 0;
  PlanPart lead{};               ///< the item that it begins with
  PlanPart tail{};               ///< the item that it ends with, if it is another
  std::int64_t begin = 0;        ///< where its part of the line begins
  std::int32_t split_steps = 0;  ///< the plan's
  std::int32_t reserved = 0;
};

/// One table row.
struct alignas(16) PlanRow {
  std::int64_t base = 0;        ///< where its items begin on the line
  std::int32_t first_step = 0;  ///< first step with a visible key
  std::int32_t length = 0;      ///< keys; 0 if there is no query
  std::int32_t q_first = 0;     ///< first query token
  std::int32_t q_count = 0;     ///< query tokens
  std::int64_t reserved = 0;
};

/// Steps of a row: from the first to the last visible key.
KVPOOL_HOST_DEVICE constexpr std::int32_t steps_of(std::int32_t length, std::int32_t first_step) {
  return length / kStep + (length % kStep != 0 ? 1 : 0) - first_step;
}

static_assert(sizeof(PlanHeader) == 48 && std::is_trivially_copyable_v<PlanHeader>);
static_assert(sizeof(PlanBlock) == 64 && std::is_trivially_copyable_v<PlanBlock>);
static_assert(sizeof(PlanRow) == 32 && std::is_trivially_copyable_v<PlanRow>);

/// Parts of a plan of `blocks` blocks: header, blocks, rows.
struct PlanLayout {
  PlanHeader* header = nullptr;
  PlanBlock* blocks = nullptr;
  PlanRow* rows = nullptr;
};

KVPOOL_HOST_DEVICE inline PlanLayout layout_of(void* plan, std::int32_t blocks) {
  auto* bytes = static_cast<char*>(plan);
  return {.header = reinterpret_cast<PlanHeader*>(bytes),
          .blocks = reinterpret_cast<PlanBlock*>(bytes + sizeof(PlanHeader)),
          .rows = reinterpret_cast<PlanRow*>(bytes + sizeof(PlanHeader) +
                                             static_cast<std::int64_t>(blocks) *
                                                 static_cast<std::int64_t>(sizeof(PlanBlock)))};
}

}  // namespace kvpool::kernels::packed
