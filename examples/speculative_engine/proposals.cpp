// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "proposals.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace example {

void ProposalMixer::mix(std::int32_t name, std::span<const std::int32_t> tokens,
                        std::span<std::int32_t> proposals) {
  std::ranges::fill(proposals, -1);
  for (std::int32_t& proposal : proposals) {
    proposal = decides() ? 0 : -1;
  }
  const auto last = std::ranges::find(proposals.rbegin(), proposals.rend(), 0);
  const auto count = static_cast<std::int32_t>(proposals.rend() - last);
  const std::vector<std::int32_t> own = alone(name).continuation(tokens, count);
  for (std::size_t i = 0; i < own.size(); ++i) {
    proposals[i] = proposals[i] == 0 ? own[i] : -1;
  }
}

DenseDecoder& ProposalMixer::alone(std::int32_t name) {
  return decoders_.try_emplace(name, *target_, type_, static_cast<std::uint64_t>(name))
      .first->second;
}

bool ProposalMixer::decides() {
  random_ = random_ * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
  return static_cast<double>(random_ >> 11U) * 0x1p-53 < rate_;
}

}  // namespace example
