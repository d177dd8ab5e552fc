// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/block/csr_tables.hpp>

#include "block/group_tokens.hpp"

#include <algorithm>

namespace kvpool {

void build_csr(const BlockManager& manager, GroupId group, std::span<const SequenceId> sequences,
               std::span<const std::int32_t> lengths, CsrTables& tables) {
  tables.indptr.clear();
  tables.indices.clear();
  tables.last_page_len.clear();
  tables.first_token.clear();
  const CacheGroup& facts = manager.groups()[static_cast<std::size_t>(group.value())];
  // A state is a block of one token.
  const std::int64_t block = std::max<std::int64_t>(facts.tokens_per_block.count(), 1);

  tables.indptr.push_back(0);
  for (std::size_t row = 0; row < sequences.size(); ++row) {
    const GroupView view = manager.view(sequences[row], group);
    std::int64_t tokens = group_tokens(manager, sequences[row], facts);
    if (row < lengths.size() && depends_on_length(facts)) {
      tokens = std::min<std::int64_t>(tokens, lengths[row]);
    }
    const std::int64_t first = view.held.first.value();
    const std::int64_t end = std::min(ceil_div(tokens, block), view.held.last.value());
    const bool has_pages = first < end;
    if (has_pages) {
      const auto pages = view.entries.subspan(static_cast<std::size_t>(first),
                                              static_cast<std::size_t>(end - first));
      tables.indices.insert(tables.indices.end(), pages.begin(), pages.end());
    }
    tables.indptr.push_back(static_cast<std::int32_t>(tables.indices.size()));
    tables.last_page_len.push_back(has_pages ? static_cast<std::int32_t>(tokens - (end - 1) * block)
                                             : 0);
    tables.first_token.push_back(has_pages ? static_cast<std::int32_t>(first * block) : 0);
  }
}

}  // namespace kvpool
