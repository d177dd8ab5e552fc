// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Two small models with weights from a seed: a decoder-only target (GQA, RoPE, RMSNorm, gated MLP,
// one of its layers with a sliding window) and a block drafter in the manner of DFlash, which keeps
// keys and values of the target's hidden states and fills in a block of masked tokens at once.
#pragma once

#include <kvpool/kernels/cache_operand.hpp>
#include <kvpool/model/model_config.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace example {

/// Tokens that the drafter proposes at once.
inline constexpr std::int32_t kDrafts = 7;
/// Query tokens that the target verifies at once: the last token, and the drafts behind it.
inline constexpr std::int32_t kBlock = kDrafts + 1;

/// Sizes of a model.
struct ModelShape {
  std::int32_t vocabulary = 128;
  std::int32_t hidden = 64;
  std::int32_t layers = 3;
  std::int32_t query_heads = 4;
  std::int32_t kv_heads = 2;
  std::int32_t head_dim = 16;
  std::int32_t mlp = 96;
  /// Layer with a sliding window; -1 for none.
  std::int32_t window_layer = 1;
  /// Tokens of its window, the token itself included.
  std::int32_t window = 40;
  /// How much of a layer's output is attention. In 16 bits less of it leaves fewer tokens to
  /// chance: what rounding moves is attention's part.
  float attention = 1.0F;

  /// Elements of all query heads of a token.
  [[nodiscard]] std::int32_t query_width() const { return query_heads * head_dim; }
  /// Elements of all KV heads of a token.
  [[nodiscard]] std::int32_t kv_width() const { return kv_heads * head_dim; }
};

/// Weights of a layer. Matrices are [in, out]: y[o] is the sum of x[i] * w[i * out + o].
struct LayerWeights {
  std::vector<float> attention_norm{};  ///< [hidden]
  std::vector<float> query{};           ///< [hidden, query_width]
  std::vector<float> key{};             ///< [hidden, kv_width]
  std::vector<float> value{};           ///< [hidden, kv_width]
  std::vector<float> output{};          ///< [query_width, hidden]
  std::vector<float> mlp_norm{};        ///< [hidden]
  std::vector<float> gate{};            ///< [hidden, mlp]
  std::vector<float> up{};              ///< [hidden, mlp]
  std::vector<float> down{};            ///< [mlp, hidden]
};

/// A model.
struct Model {
  ModelShape shape{};
  std::vector<LayerWeights> layers{};
  /// [vocabulary + 1, hidden]; the last row is the drafter's mask. The drafter uses the target's.
  std::vector<float> embedding{};
  /// [hidden]
  std::vector<float> final_norm{};
  /// [hidden, vocabulary]; the drafter uses the target's.
  std::vector<float> head{};
};

/// Target and drafter.
struct Models {
  Model target{};
  Model drafter{};
};

/// Both models. @param shape of the target; the drafter has as many heads, and two layers
[[nodiscard]] Models make_models(const ModelShape& shape, std::uint64_t seed);

/// Cosine and sine of RoPE: [positions, head_dim / 2] each.
struct RopeTable {
  std::vector<float> cosine{};
  std::vector<float> sine{};
};

/// The table of all positions up to `positions`.
[[nodiscard]] RopeTable make_rope_table(std::int32_t head_dim, std::int64_t positions);

/// What kvpool is told of the target. @param type format of weights and cache
[[nodiscard]] kvpool::ModelConfig target_config(const ModelShape& shape,
                                                kvpool::kernels::ElementType type,
                                                std::int64_t max_positions);
/// What kvpool is told of the drafter.
[[nodiscard]] kvpool::ModelConfig drafter_config(const ModelShape& shape,
                                                 kvpool::kernels::ElementType type,
                                                 std::int64_t max_positions);

}  // namespace example
