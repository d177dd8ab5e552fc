// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dense_decoder.hpp"
#include "model.hpp"

#include <cstdint>
#include <map>
#include <span>

namespace example {

/// A drafter with weights from a seed is almost never right. So that all that acceptance can lead
/// to happens, some of its proposals are replaced by what the target itself would say.
class ProposalMixer {
 public:
  /// @param target outlives the mixer
  /// @param rate of replaced proposals, 0 to 1
  ProposalMixer(const Model& target, kvpool::kernels::ElementType type, double rate,
                std::uint64_t seed)
      : target_{&target}, type_{type}, rate_{rate}, random_{seed} {}

  /// Writes the target's tokens, or -1 for the drafter's.
  /// @param name of the request @param tokens its prompt and output
  void mix(std::int32_t name, std::span<const std::int32_t> tokens,
           std::span<std::int32_t> proposals);

  /// The target alone, over a request's tokens.
  [[nodiscard]] DenseDecoder& alone(std::int32_t name);
  /// Tokens that there are.
  [[nodiscard]] std::int32_t vocabulary() const { return target_->shape.vocabulary; }
  /// Ends a request.
  void forget(std::int32_t name) { decoders_.erase(name); }

 private:
  [[nodiscard]] bool decides();

  const Model* target_;
  kvpool::kernels::ElementType type_;
  double rate_;
  std::uint64_t random_;
  std::map<std::int32_t, DenseDecoder> decoders_;
};

}  // namespace example
