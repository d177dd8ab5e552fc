// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <cmath>
#include <random>

namespace example {
namespace {

constexpr double kRopeBase = 10'000.0;

/// Numbers that are the same everywhere: of the standard's generators, but not its distributions,
/// which libraries may draw differently.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : random_{seed} {}

  /// Numbers of mean 0 and this deviation.
  std::vector<float> around_zero(std::int64_t count, float deviation) {
    return draw(count, 0.0F, deviation * std::sqrt(3.0F));
  }
  /// Factors of a norm.
  std::vector<float> around_one(std::int64_t count) { return draw(count, 1.0F, 0.2F); }

 private:
  std::vector<float> draw(std::int64_t count, float middle, float reach) {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& number : numbers) {
      const auto fraction = static_cast<float>(random_() >> 40U) * 0x1p-24F;  // [0, 1)
      number = middle + reach * (2.0F * fraction - 1.0F);
    }
    return numbers;
  }

  std::mt19937_64 random_;
};

/// A matrix whose outputs are as large as its inputs, times `gain`.
std::vector<float> matrix(Numbers& numbers, std::int64_t in, std::int64_t out, float gain = 1.0F) {
  return numbers.around_zero(in * out, gain / std::sqrt(static_cast<float>(in)));
}

LayerWeights make_layer(const ModelShape& shape, Numbers& numbers) {
  // Queries and keys of this size make attention choose a few tokens, instead of the mean of all.
  constexpr float kSharp = 1.7F;
  return {.attention_norm = numbers.around_one(shape.hidden),
          .query = matrix(numbers, shape.hidden, shape.query_width(), kSharp),
          .key = matrix(numbers, shape.hidden, shape.kv_width(), kSharp),
          .value = matrix(numbers, shape.hidden, shape.kv_width()),
          .output = matrix(numbers, shape.query_width(), shape.hidden, shape.attention),
          .mlp_norm = numbers.around_one(shape.hidden),
          .gate = matrix(numbers, shape.hidden, shape.mlp),
          .up = matrix(numbers, shape.hidden, shape.mlp),
          .down = matrix(numbers, shape.mlp, shape.hidden)};
}

ModelShape drafter_shape(const ModelShape& shape) {
  ModelShape drafter = shape;
  drafter.layers = 2;
  drafter.window_layer = -1;
  return drafter;
}

kvpool::ModelConfig config_of(const ModelShape& shape, kvpool::kernels::ElementType type,
                              std::int64_t max_positions) {
  kvpool::ModelConfig model{.native_dtype = type == kvpool::kernels::ElementType::kFp32
                                                ? kvpool::KvDtype::kFp32
                                                : kvpool::KvDtype::kBf16,
                            .max_positions = kvpool::Tokens{max_positions},
                            .query_heads = kvpool::Heads{shape.query_heads},
                            .hidden_size = shape.hidden};
  for (std::int32_t i = 0; i < shape.layers; ++i) {
    const kvpool::Span span =
        i == shape.window_layer
            ? kvpool::Span{kvpool::SpanKind::kSlidingWindow, kvpool::Tokens{shape.window}}
            : kvpool::Span{};
    model.layers.push_back(
        {.index = kvpool::LayerIndex{i},
         .caches = {kvpool::AttentionCache{.query_heads = kvpool::Heads{shape.query_heads},
                                           .kv_heads = kvpool::Heads{shape.kv_heads},
                                           .key_dim = shape.head_dim,
                                           .value_dim = shape.head_dim,
                                           .span = span}}});
  }
  return model;
}

}  // namespace

Models make_models(const ModelShape& shape, std::uint64_t seed) {
  Numbers numbers{seed};
  Models models{.target = {.shape = shape}, .drafter = {.shape = drafter_shape(shape)}};
  for (Model* const model : {&models.target, &models.drafter}) {
    for (std::int32_t i = 0; i < model->shape.layers; ++i) {
      model->layers.push_back(make_layer(model->shape, numbers));
    }
    model->final_norm = numbers.around_one(shape.hidden);
  }
  models.target.embedding =
      numbers.around_zero(std::int64_t{shape.vocabulary + 1} * shape.hidden, 1.0F);
  models.target.head = matrix(numbers, shape.hidden, shape.vocabulary);
  return models;
}

RopeTable make_rope_table(std::int32_t head_dim, std::int64_t positions) {
  const std::int32_t half = head_dim / 2;
  RopeTable table;
  for (std::int64_t position = 0; position < positions; ++position) {
    for (std::int32_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(position) * std::pow(kRopeBase, -static_cast<double>(i) / half);
      table.cosine.push_back(static_cast<float>(std::cos(angle)));
      table.sine.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

kvpool::ModelConfig target_config(const ModelShape& shape, kvpool::kernels::ElementType type,
                                  std::int64_t max_positions) {
  kvpool::ModelConfig model = config_of(shape, type, max_positions);
  model.name = "small target";
  return model;
}

kvpool::ModelConfig drafter_config(const ModelShape& shape, kvpool::kernels::ElementType type,
                                   std::int64_t max_positions) {
  kvpool::ModelConfig model = config_of(drafter_shape(shape), type, max_positions);
  model.name = "small block drafter";
  model.drafter = kvpool::DrafterTraits{.kind = kvpool::DrafterKind::kDflash,
                                        .block_tokens = kvpool::Tokens{kDrafts},
                                        .target_layers = kvpool::Layers{shape.layers}};
  return model;
}

}  // namespace example
