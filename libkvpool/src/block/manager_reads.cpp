// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0

// What tables and snapshots read.

#include "block/manager_impl.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvpool {

std::vector<std::string> BlockManager::tenants() const { return impl_->names.tenant_names(); }

Tokens BlockManager::encoder_tokens(SequenceId sequence) const noexcept {
  return impl_->find(sequence) == nullptr ? Tokens{}
                                          : Tokens{impl_->cold[sequence.index].encoder_tokens};
}

ChangedColumns BlockManager::take_changed_columns(SequenceId sequence, GroupId group) noexcept {
  Impl::Hot* const of = impl_->find(sequence);
  const auto g = static_cast<std::size_t>(group.value());
  if (of == nullptr || g >= impl_->groups.size() || (of->changed >> g & 1U) == 0) {
    return {};
  }
  of->changed &= ~(std::uint64_t{1} << g);
  const Impl::Cell& at = impl_->cell(sequence.index, g);
  // What went back again since is not there any more.
  const std::int32_t first = std::max(at.changed_first, at.first);
  const std::int32_t end = std::min(at.changed_end, at.end);
  if (first >= end) {
    return {};
  }
  return {
      .first = BlockIndex{first},
      .entries = {impl_->row(sequence.index, g) + first, static_cast<std::size_t>(end - first)}};
}

}  // namespace kvpool
