// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/decode_rows.hpp>

#include "block/group_tokens.hpp"

#include <algorithm>
#include <cstddef>

namespace kvpool {

void expand_decode_rows(std::span<const StepTokens> step, DecodeRows& rows) {
  rows.table_row.clear();
  rows.position.clear();
  rows.length.clear();
  for (const StepTokens& part : step) {
    for (std::int32_t t = 0; t < part.count; ++t) {
      const std::int32_t position = part.first_position + t;
      rows.table_row.push_back(part.table_row);
      rows.position.push_back(position);
      rows.length.push_back(position + 1);
    }
  }
}

PageTableView expand_table(const PageTableView& tables, const DecodeRows& rows,
                           std::vector<std::int32_t>& entries) {
  const std::int64_t stride = tables.row_stride_entries;
  entries.resize(rows.table_row.size() * static_cast<std::size_t>(stride));
  for (std::size_t row = 0; row < rows.table_row.size(); ++row) {
    const std::int64_t blocks = ceil_div(rows.length[row], tables.tokens_per_block);
    std::copy_n(tables.entries + rows.table_row[row] * stride, blocks,
                entries.data() + static_cast<std::int64_t>(row) * stride);
  }
  PageTableView expanded = tables;
  expanded.entries = entries.data();
  expanded.lengths = rows.length.data();
  expanded.rows = static_cast<std::int32_t>(rows.table_row.size());
  return expanded;
}

void slot_mapping(const BlockManager& manager, GroupId group, std::span<const SequenceId> sequences,
                  std::span<const StepTokens> step, std::vector<std::int64_t>& slots) {
  const CacheGroup& facts = manager.groups()[static_cast<std::size_t>(group.value())];
  const std::int64_t block_tokens = facts.tokens_per_block.count();
  slots.clear();
  for (const StepTokens& part : step) {
    const SequenceId sequence = sequences[static_cast<std::size_t>(part.table_row)];
    const GroupView view = manager.view(sequence, group);
    const std::int64_t tokens = group_tokens(manager, sequence, facts);
    for (std::int64_t t = part.first_position; t < part.first_position + part.count; ++t) {
      const std::int64_t block = t / block_tokens;
      const bool has_page = t >= 0 && t < tokens && block >= view.held.first.value() &&
                            block < view.held.last.value();
      slots.push_back(has_page ? view.entries[static_cast<std::size_t>(block)] * block_tokens +
                                     t % block_tokens
                               : -1);
    }
  }
}

}  // namespace kvpool
