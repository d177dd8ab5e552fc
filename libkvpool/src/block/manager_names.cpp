// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block/manager_impl.hpp"

namespace kvpool {

std::vector<std::string> BlockManager::tenants() const { return impl_->names.tenant_names(); }

Tokens BlockManager::encoder_tokens(SequenceId sequence) const noexcept {
  return impl_->find(sequence) == nullptr ? Tokens{}
                                          : Tokens{impl_->cold[sequence.index].encoder_tokens};
}

}  // namespace kvpool
