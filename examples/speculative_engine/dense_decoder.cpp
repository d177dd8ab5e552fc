// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "dense_decoder.hpp"

#include <kvpool/kernels/narrow_float.hpp>

#include <algorithm>
#include <cmath>

namespace example {
namespace {

std::vector<float> normalised(const std::vector<float>& x, const std::vector<float>& factors) {
  float squares = 0.0F;
  for (const float value : x) {
    squares += value * value;
  }
  const float scale = 1.0F / std::sqrt(squares / static_cast<float>(x.size()) + 1e-6F);
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] * scale * factors[i];
  }
  return y;
}

std::vector<float> product(const std::vector<float>& x, const std::vector<float>& matrix) {
  const std::size_t width = matrix.size() / x.size();
  std::vector<float> y(width);
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t o = 0; o < width; ++o) {
      y[o] += x[i] * matrix[i * width + o];
    }
  }
  return y;
}

void add(std::vector<float>& x, const std::vector<float>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] += y[i];
  }
}

}  // namespace

DenseDecoder::DenseDecoder(const Model& target, kvpool::kernels::ElementType type,
                           std::uint64_t seed)
    : target_{&target}, type_{type}, random_{seed} {
  const std::size_t layers = target.layers.size();
  copies_.push_back({.layers = std::vector<LayerCache>(layers)});
  if (type != kvpool::kernels::ElementType::kFp32) {
    copies_.push_back({.layers = std::vector<LayerCache>(layers), .is_moved = true});
  }
}

Choice DenseDecoder::next(std::span<const std::int32_t> tokens) {
  const auto common =
      static_cast<std::size_t>(std::ranges::mismatch(fed_, tokens).in1 - fed_.begin());
  if (common < tokens.size()) {
    fed_.resize(common);
    choices_.resize(common);
    for (Copy& copy : copies_) {
      for (LayerCache& layer : copy.layers) {
        const auto width = static_cast<std::size_t>(target_->shape.kv_width());
        layer.keys.resize(common * width);
        layer.values.resize(common * width);
      }
    }
    for (const std::int32_t token : tokens.subspan(common)) {
      const Choice choice = feed(token);
      fed_.push_back(token);
      choices_.push_back(choice);
    }
  }
  return choices_[tokens.size() - 1];
}

std::vector<std::int32_t> DenseDecoder::continuation(std::span<const std::int32_t> tokens,
                                                     std::int32_t count) {
  std::vector<std::int32_t> all{tokens.begin(), tokens.end()};
  for (std::int32_t i = 0; i < count; ++i) {
    all.push_back(next(all).best);
  }
  return {all.end() - count, all.end()};
}

Choice DenseDecoder::feed(std::int32_t token) {
  const std::vector<float> scores = logits(copies_.front(), token);
  Choice choice;
  choice.best = static_cast<std::int32_t>(std::ranges::max_element(scores) - scores.begin());
  const float best = scores[static_cast<std::size_t>(choice.best)];
  choice.second = choice.best == 0 ? 1 : 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (static_cast<std::int32_t>(i) != choice.best &&
        scores[i] > scores[static_cast<std::size_t>(choice.second)]) {
      choice.second = static_cast<std::int32_t>(i);
    }
  }
  choice.gap = best - scores[static_cast<std::size_t>(choice.second)];
  for (std::size_t c = 1; c < copies_.size(); ++c) {
    const std::vector<float> moved = logits(copies_[c], token);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      choice.tie = std::max(choice.tie, 2.0F * std::abs(moved[i] - scores[i]));
    }
  }
  return choice;
}

std::vector<float> DenseDecoder::logits(Copy& copy, std::int32_t token) {
  const ModelShape& shape = target_->shape;
  const auto position = static_cast<std::int64_t>(fed_.size());
  const auto first = target_->embedding.begin() + std::ptrdiff_t{token} * shape.hidden;
  std::vector<float> x{first, first + shape.hidden};
  for (std::size_t i = 0; i < target_->layers.size(); ++i) {
    const LayerWeights& layer = target_->layers[i];
    const std::vector<float> in = normalised(x, layer.attention_norm);
    std::vector<float> query = product(in, layer.query);
    std::vector<float> key = product(in, layer.key);
    rotate(query, position);
    rotate(key, position);
    LayerCache& cache = copy.layers[i];
    for (const float number : key) {
      cache.keys.push_back(rounded(number));
    }
    for (const float number : product(in, layer.value)) {
      cache.values.push_back(rounded(number));
    }
    std::vector<float> seen(query.size());
    attend(copy, i, query, seen);
    add(x, product(seen, layer.output));

    const std::vector<float> mid = normalised(x, layer.mlp_norm);
    std::vector<float> gate = product(mid, layer.gate);
    const std::vector<float> up = product(mid, layer.up);
    for (std::size_t m = 0; m < gate.size(); ++m) {
      gate[m] = gate[m] / (1.0F + std::exp(-gate[m])) * up[m];
    }
    add(x, product(gate, layer.down));
  }
  return product(normalised(x, target_->final_norm), target_->head);
}

void DenseDecoder::attend(Copy& copy, std::size_t layer, const std::vector<float>& query,
                          std::vector<float>& out) {
  const ModelShape& shape = target_->shape;
  const LayerCache& cache = copy.layers[layer];
  const auto width = static_cast<std::size_t>(shape.kv_width());
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  const std::size_t tokens = cache.keys.size() / width;
  const auto window = static_cast<std::size_t>(shape.window);
  const bool has_window = static_cast<std::int32_t>(layer) == shape.window_layer;
  const std::size_t begin = has_window && tokens > window ? tokens - window : 0;
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  std::vector<float> scores(tokens);
  for (std::size_t head = 0; head < static_cast<std::size_t>(shape.query_heads); ++head) {
    const auto group = static_cast<std::size_t>(shape.query_heads / shape.kv_heads);
    const std::size_t in_row = head / group * dim;
    float largest = -INFINITY;
    for (std::size_t t = begin; t < tokens; ++t) {
      float dot = 0.0F;
      for (std::size_t d = 0; d < dim; ++d) {
        dot += rounded(query[head * dim + d]) * cache.keys[t * width + in_row + d];
      }
      scores[t] = dot * scale;
      largest = std::max(largest, scores[t]);
    }
    float sum = 0.0F;
    std::vector<float> mixed(dim);
    for (std::size_t t = begin; t < tokens; ++t) {
      const float weight = std::exp(scores[t] - largest);
      sum += weight;
      const float used = copy.is_moved ? moved_weight(weight) : weight;
      for (std::size_t d = 0; d < dim; ++d) {
        mixed[d] += used * cache.values[t * width + in_row + d];
      }
    }
    const float share = 1.0F / sum;
    for (std::size_t d = 0; d < dim; ++d) {
      out[head * dim + d] = rounded(mixed[d] * share);
    }
  }
}

void DenseDecoder::rotate(std::vector<float>& heads, std::int64_t position) const {
  const auto dim = static_cast<std::size_t>(target_->shape.head_dim);
  const std::size_t half = dim / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) *
                         std::pow(10'000.0, -static_cast<double>(i) / static_cast<double>(half));
    const auto cosine = static_cast<float>(std::cos(angle));
    const auto sine = static_cast<float>(std::sin(angle));
    for (std::size_t head = 0; head < heads.size(); head += dim) {
      const float low = heads[head + i];
      const float high = heads[head + i + half];
      heads[head + i] = low * cosine - high * sine;
      heads[head + i + half] = high * cosine + low * sine;
    }
  }
}

float DenseDecoder::rounded(float value) const {
  return type_ == kvpool::kernels::ElementType::kFp32
             ? value
             : kvpool::kernels::bf16_to_float(kvpool::kernels::float_to_bf16(value));
}

float DenseDecoder::moved_weight(float weight) {
  random_ = random_ * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
  const auto fraction = static_cast<float>(random_ >> 40U) * 0x1p-23F - 1.0F;  // [-1, 1)
  return weight * (1.0F + fraction * 0x1p-9F);
}

}  // namespace example
