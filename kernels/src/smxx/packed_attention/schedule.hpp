// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// How packed attention divides a batch among thread blocks. One source for the planning kernel, the
// plan on the host and the readers of a plan.
//
// The batch is a line of costs. Each table row has `items_per_row` items (KV head, tile of query
// rows), one after the other; an item with keys costs `start` and one for each step of 16 keys, an
// item without costs one. Block b of the `blocks` takes [cost_of(b), cost_of(b + 1)), a segment of
// one item, of several, or only a part of one. With a fixed split the line counts chunks of
// `split_steps` steps instead, and a segment is exactly one chunk.
#pragma once

#include <kvpool/block/page_table_view.hpp>
#include <kvpool/kernels/packed_attention.hpp>

#include "smxx/device/quotient.hpp"
#include "smxx/packed_attention/plan_format.hpp"

#include <cstdint>

namespace kvpool::kernels::packed {

/// What beginning an item costs a block, in steps: about 100 KiB of keys and values.
KVPOOL_HOST_DEVICE constexpr std::int32_t start_cost(std::int32_t head_dim) {
  return head_dim <= 64 ? 24 : 12;
}

/// What a plan is made with.
struct PlanShape {
  std::int32_t items_per_row = 1;
  std::int32_t start = 0;        ///< `start_cost`
  std::int32_t split_steps = 0;  ///< 0: balanced
  std::int32_t blocks = 1;       ///< thread blocks that there are
  /// A few blocks less, so that blocks are a multiple of the items, or items of the blocks; or 0.
  /// While all rows are equally long no block then begins more items than it must.
  std::int32_t aligned_blocks = 0;
};

/// `PlanShape::aligned_blocks` for so many items.
[[nodiscard]] constexpr std::int32_t aligned_blocks(std::int32_t blocks, std::int64_t items) {
  for (std::int32_t aligned = blocks; items > 0 && aligned > blocks - blocks / 16; --aligned) {
    if (aligned % items == 0 || items % aligned == 0) {
      return aligned;
    }
  }
  return 0;
}

/// Cost of one item of `steps` steps.
KVPOOL_HOST_DEVICE constexpr std::int64_t item_cost(std::int32_t steps, std::int32_t split_steps,
                                                    std::int32_t start) {
  if (split_steps > 0) {
    return steps > 0 ? (static_cast<std::int64_t>(steps) + split_steps - 1) / split_steps : 1;
  }
  return steps > 0 ? static_cast<std::int64_t>(steps) + start : 1;
}

/// The header for a line of `total`, of `rows` rows of which the first costs `first_row`. Fewer
/// blocks get work while the line is short: a block has more than `start`, so that one which begins
/// in an item has keys.
KVPOOL_HOST_DEVICE inline PlanHeader plan_header(std::int64_t total, std::int64_t rows,
                                                 std::int64_t first_row, const PlanShape& shape) {
  const bool balanced = shape.split_steps == 0;
  const std::int64_t items = rows * shape.items_per_row;
  const std::int64_t most = balanced ? quotient(total, shape.start + 8) : total;
  std::int64_t working = most < 1 ? 1 : most < shape.blocks ? most : shape.blocks;
  if (balanced && total == rows * first_row) {
    if (working < shape.blocks) {
      working = working > items ? quotient(working, items) * items : working;
    } else if (shape.aligned_blocks > 0) {
      working = shape.aligned_blocks;
    }
  }
  PlanHeader header;
  header.total = total;
  header.blocks = static_cast<std::int32_t>(working);
  const std::int64_t each = quotient(total, working);
  header.each = static_cast<std::int32_t>(each);
  header.longer = static_cast<std::int32_t>(total - each * working);
  header.inverse = header.each > 0 ? 1.0 / static_cast<double>(header.each) : 0.0;
  header.split_steps = shape.split_steps;
  header.start = shape.start;
  return header;
}

/// Where block b begins on the line.
KVPOOL_HOST_DEVICE constexpr std::int64_t cost_of(std::int64_t b, const PlanHeader& header) {
  return b * header.each + quotient(b * header.longer, header.blocks);
}

/// The block that has position `at` of the line. No division: it is far slower than this.
KVPOOL_HOST_DEVICE constexpr std::int64_t block_at(std::int64_t at, const PlanHeader& header) {
  auto b = static_cast<std::int64_t>(static_cast<double>(at) * header.inverse);
  // Too far by what the longer blocks have more, or short by a rounding.
  b = b < header.blocks ? b : header.blocks - 1;
  while (cost_of(b, header) > at) {
    --b;
  }
  while (b + 1 < header.blocks && cost_of(b + 1, header) <= at) {
    ++b;
  }
  return b;
}

/// Keys [first, end) that some query token of the row sees, in whole steps, and its query tokens.
KVPOOL_HOST_DEVICE inline PlanRow plan_row(const PackedPlanParams& params, std::int64_t row,
                                           std::int32_t length) {
  PlanRow result;
  const std::int64_t first =
      params.q_indptr == nullptr ? row * params.max_query_tokens : params.q_indptr[row];
  const std::int64_t end =
      params.q_indptr == nullptr ? first + params.max_query_tokens : params.q_indptr[row + 1];
  result.q_first = static_cast<std::int32_t>(first);
  result.q_count = static_cast<std::int32_t>(end - first);
  if (result.q_count > 0 && length > 0) {
    result.length = length;
    const std::int64_t first_key =
        static_cast<std::int64_t>(length) - result.q_count - params.window_left;
    if (params.window_left >= 0 && first_key > 0) {
      result.first_step = static_cast<std::int32_t>(first_key / kStep);
    }
  }
  return result;
}

/// Segments of one item and where their partial results are.
struct Segments {
  std::int32_t count = 1;
  std::int32_t first_block = 0;  ///< block of segment 0; segment i is block first_block + i's
  std::int64_t first_slot = 0;   ///< slot of segment 0
  std::int64_t second_slot = 0;  ///< slot of segment 1
  std::int64_t stride = 0;       ///< from segment 1 on, slots from one to the next

  /// Slot of segment i.
  [[nodiscard]] KVPOOL_HOST_DEVICE std::int64_t slot(std::int32_t i) const {
    return i == 0 ? first_slot : second_slot + (i - 1) * stride;
  }
};

/// Segments of the item that begins at `base`. In a balanced plan block b writes slot 2b for the
/// segment it begins with and 2b + 1 for the one it ends with; only those two can be parts of
/// items. With a fixed split the slot is the position on the line.
KVPOOL_HOST_DEVICE inline Segments segments_of(std::int64_t base, std::int32_t steps,
                                               const PlanHeader& header) {
  Segments result;
  if (steps <= 0) {
    return result;
  }
  if (header.split_steps > 0) {
    result.count = static_cast<std::int32_t>(item_cost(steps, header.split_steps, header.start));
    result.first_slot = base;
    result.second_slot = base + 1;
    result.stride = 1;
    return result;
  }
  const std::int64_t keys = base + header.start;
  const std::int64_t first = block_at(keys, header);
  const std::int64_t last = block_at(keys + steps - 1, header);
  const bool leads = cost_of(first, header) >= base;
  result.count = static_cast<std::int32_t>(last - first + 1);
  result.first_block = static_cast<std::int32_t>(first);
  result.first_slot = 2 * first + (leads ? 0 : 1);
  result.second_slot = 2 * (first + 1);
  result.stride = 2;
  return result;
}

/// The part of block b in the item at `at`, a position in a row's part of the line.
KVPOOL_HOST_DEVICE inline PlanPart plan_part(std::int64_t b, std::int64_t at, const PlanRow& row,
                                             const PlanHeader& header) {
  const std::int32_t steps = steps_of(row.length, row.first_step);
  const std::int64_t each = item_cost(steps, header.split_steps, header.start);
  const std::int64_t base = row.base + quotient(at - row.base, each) * each;
  const Segments segments = segments_of(base, steps, header);
  const bool takes_part = b >= segments.first_block && b < segments.first_block + segments.count;
  if (header.split_steps > 0 || segments.count < 2 || !takes_part) {
    return {};
  }
  return {.count = segments.count, .first_slot = static_cast<std::int32_t>(segments.first_slot)};
}

/// The record of block b, whose first position is in `first` and whose last in `last`.
KVPOOL_HOST_DEVICE inline PlanBlock plan_block(std::int64_t b, const PlanHeader& header,
                                               std::int64_t row, const PlanRow& first,
                                               const PlanRow& last) {
  const std::int64_t begin = cost_of(b, header);
  const std::int64_t end = cost_of(b + 1, header);
  const std::int64_t each =
      item_cost(steps_of(first.length, first.first_step), header.split_steps, header.start);
  PlanBlock block;
  block.row = static_cast<std::int32_t>(row);
  const std::int64_t item = quotient(begin - first.base, each);
  block.item = static_cast<std::int32_t>(item);
  block.offset = static_cast<std::int32_t>(begin - first.base - item * each);
  block.cost = static_cast<std::int32_t>(end - begin);
  block.first_step = first.first_step;
  block.length = first.length;
  block.q_first = first.q_first;
  block.q_count = first.q_count;
  block.lead = plan_part(b, begin, first, header);
  if (begin - block.offset + each < end) {
    block.tail = plan_part(b, end - 1, last, header);
  }
  block.begin = begin;
  block.split_steps = header.split_steps;
  return block;
}

}  // namespace kvpool::kernels::packed
