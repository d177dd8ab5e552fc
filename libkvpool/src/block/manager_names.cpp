// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block/manager_impl.hpp"

namespace kvpool {

std::vector<std::string> BlockManager::tenants() const { return impl_->names.tenant_names(); }

Tokens BlockManager::encoder_tokens(SequenceId sequence) const noexcept {
  return impl_->find(sequence) == nullptr ? Tokens{}
                                          : Tokens{impl_->cold[sequence.index].encoder_tokens};
}

ChangedColumns BlockManager::take_changed_columns(SequenceId sequence, GroupId group) noexcept {
  const BlockRange columns = take_changes(sequence, group);
  if (columns.count() == 0) {
    return {};
  }
  const std::int32_t* const row =
      impl_->row(sequence.index, static_cast<std::size_t>(group.value()));
  return {.first = columns.first,
          .entries = {row + columns.first.value(), static_cast<std::size_t>(columns.count())}};
}

}  // namespace kvpool
