// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What of a model is not attention, on the host: for many tokens at once, each as if it were alone.
// Every sum goes over its inputs in ascending order, in fp32.
#pragma once

#include "model.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace example {

/// Rows of `width` numbers, one for each token.
struct Rows {
  std::vector<float> values{};
  std::int64_t width = 0;

  [[nodiscard]] std::int64_t tokens() const {
    return static_cast<std::int64_t>(values.size()) / width;
  }
  [[nodiscard]] std::span<const float> row(std::int64_t token) const {
    return std::span{values}.subspan(static_cast<std::size_t>(token * width),
                                     static_cast<std::size_t>(width));
  }
  [[nodiscard]] std::span<float> row(std::int64_t token) {
    return std::span{values}.subspan(static_cast<std::size_t>(token * width),
                                     static_cast<std::size_t>(width));
  }
};

/// Embeddings of tokens.
[[nodiscard]] Rows embed(const Model& model, std::span<const std::int32_t> tokens);
/// RMSNorm.
[[nodiscard]] Rows norm(const Rows& x, const std::vector<float>& factors);
/// x times a matrix.
[[nodiscard]] Rows multiply(const Rows& x, const std::vector<float>& matrix);
/// x += y.
void add(Rows& x, const Rows& y);
/// RoPE of every head, whose first half is turned against the second.
void rotate(Rows& x, std::int32_t head_dim, const RopeTable& table,
            std::span<const std::int32_t> positions);
/// The gated MLP of a layer.
[[nodiscard]] Rows mlp(const Rows& x, const LayerWeights& layer);
/// Place of the largest number of each row, of equal ones the first.
[[nodiscard]] std::vector<std::int32_t> largest(const Rows& x);

/// Numbers in a format of kvpool's kernels, rounded to nearest.
[[nodiscard]] std::vector<std::byte> encode(const Rows& x, kvpool::kernels::ElementType type);
/// And back.
[[nodiscard]] Rows decode(std::span<const std::byte> bytes, std::int64_t width,
                          kvpool::kernels::ElementType type);

}  // namespace example
