// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The target, decoded one token at a time with a dense cache: no pools, pages, tables, batches,
// drafter, and none of kvpool's kernels. What it says is what the engine has to say.
#pragma once

#include "model.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace example {

/// What follows some tokens.
struct Choice {
  /// Token of the largest logit; of equal ones the first.
  std::int32_t best = 0;
  /// Token of the second largest one.
  std::int32_t second = 0;
  /// Difference of the two.
  float gap = 0.0F;
  /// Two logits that differ by less are equal as far as the format can tell; 0 for fp32, where the
  /// engine computes the same sums in the same order.
  float tie = 0.0F;
};

/// One sequence of the target.
///
/// In fp32 every sum has the order that kvpool's reference kernels and the engine's own products
/// have (inputs, dimensions and keys ascending), so that results are equal to the last bit.
///
/// In bf16 numbers are rounded where the engine rounds them: queries, keys, values and outputs of
/// attention. A kernel may besides round the weights of attention, by up to 2^-9 of each, and add
/// up in another order, which is less. How much that can move a logit is found with a second copy
/// of the model whose weights of attention are each moved by a random amount of up to 2^-9 of it:
/// errors go through all layers and the cache as a kernel's would. If no logit of the copy differs
/// by more than d, two logits may change places when they differ by less than 2 * d.
class DenseDecoder {
 public:
  /// @param target outlives the decoder
  DenseDecoder(const Model& target, kvpool::kernels::ElementType type, std::uint64_t seed);

  /// What follows `tokens`, of which there is at least one. What was computed for a common prefix
  /// with the last call is kept.
  Choice next(std::span<const std::int32_t> tokens);
  /// The next `count` tokens of the target's own choice.
  std::vector<std::int32_t> continuation(std::span<const std::int32_t> tokens, std::int32_t count);

 private:
  /// Keys and values of one layer, [token][head][dim].
  struct LayerCache {
    std::vector<float> keys{};
    std::vector<float> values{};
  };
  /// A copy of the model.
  struct Copy {
    std::vector<LayerCache> layers{};
    bool is_moved = false;
  };

  Choice feed(std::int32_t token);
  std::vector<float> logits(Copy& copy, std::int32_t token);
  void attend(Copy& copy, std::size_t layer, const std::vector<float>& query,
              std::vector<float>& out);
  void rotate(std::vector<float>& heads, std::int64_t position) const;
  [[nodiscard]] float rounded(float value) const;
  float moved_weight(float weight);

  const Model* target_;
  kvpool::kernels::ElementType type_;
  std::uint64_t random_;
  std::vector<Copy> copies_;
  /// What was fed, and what followed each.
  std::vector<std::int32_t> fed_;
  std::vector<Choice> choices_;
};

}  // namespace example
