// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "arithmetic.hpp"

#include <kvpool/kernels/narrow_float.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace example {

using kvpool::kernels::ElementType;

Rows embed(const Model& model, std::span<const std::int32_t> tokens) {
  const std::int64_t hidden = model.shape.hidden;
  Rows x{.width = hidden};
  for (const std::int32_t token : tokens) {
    const auto first = model.embedding.begin() + token * hidden;
    x.values.insert(x.values.end(), first, first + hidden);
  }
  return x;
}

Rows norm(const Rows& x, const std::vector<float>& factors) {
  Rows y{.values = x.values, .width = x.width};
  for (std::int64_t t = 0; t < y.tokens(); ++t) {
    const std::span<float> row = y.row(t);
    float squares = 0.0F;
    for (const float value : row) {
      squares += value * value;
    }
    const float scale = 1.0F / std::sqrt(squares / static_cast<float>(row.size()) + 1e-6F);
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = row[i] * scale * factors[i];
    }
  }
  return y;
}

Rows multiply(const Rows& x, const std::vector<float>& matrix) {
  const auto width = static_cast<std::int64_t>(matrix.size()) / x.width;
  Rows y{.values = std::vector<float>(static_cast<std::size_t>(x.tokens() * width)),
         .width = width};
  for (std::int64_t t = 0; t < x.tokens(); ++t) {
    const std::span<const float> in = x.row(t);
    const std::span<float> out = y.row(t);
    const float* weights = matrix.data();
    for (const float value : in) {
      for (std::size_t o = 0; o < out.size(); ++o) {
        out[o] += value * weights[o];
      }
      weights += width;
    }
  }
  return y;
}

void add(Rows& x, const Rows& y) {
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    x.values[i] += y.values[i];
  }
}

void rotate(Rows& x, std::int32_t head_dim, const RopeTable& table,
            std::span<const std::int32_t> positions) {
  const std::int64_t half = head_dim / 2;
  for (std::int64_t t = 0; t < x.tokens(); ++t) {
    const std::int64_t first = positions[static_cast<std::size_t>(t)] * half;
    float* head = x.row(t).data();
    for (std::int64_t h = 0; h < x.width; h += head_dim, head += head_dim) {
      for (std::int64_t i = 0; i < half; ++i) {
        const float cosine = table.cosine[static_cast<std::size_t>(first + i)];
        const float sine = table.sine[static_cast<std::size_t>(first + i)];
        const float low = head[i];
        const float high = head[i + half];
        head[i] = low * cosine - high * sine;
        head[i + half] = high * cosine + low * sine;
      }
    }
  }
}

Rows mlp(const Rows& x, const LayerWeights& layer) {
  Rows gate = multiply(x, layer.gate);
  const Rows up = multiply(x, layer.up);
  for (std::size_t i = 0; i < gate.values.size(); ++i) {
    const float g = gate.values[i];
    gate.values[i] = g / (1.0F + std::exp(-g)) * up.values[i];
  }
  return multiply(gate, layer.down);
}

std::vector<std::int32_t> largest(const Rows& x) {
  std::vector<std::int32_t> places;
  for (std::int64_t t = 0; t < x.tokens(); ++t) {
    const std::span<const float> row = x.row(t);
    places.push_back(static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin()));
  }
  return places;
}

std::vector<std::byte> encode(const Rows& x, ElementType type) {
  const auto size = static_cast<std::size_t>(kvpool::kernels::element_bytes(type));
  std::vector<std::byte> bytes(x.values.size() * size);
  if (type == ElementType::kFp32) {
    std::memcpy(bytes.data(), x.values.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const std::uint16_t bits = kvpool::kernels::float_to_bf16(x.values[i]);
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return bytes;
}

Rows decode(std::span<const std::byte> bytes, std::int64_t width, ElementType type) {
  const auto size = static_cast<std::size_t>(kvpool::kernels::element_bytes(type));
  Rows x{.values = std::vector<float>(bytes.size() / size), .width = width};
  if (type == ElementType::kFp32) {
    std::memcpy(x.values.data(), bytes.data(), bytes.size());
    return x;
  }
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * size, size);
    x.values[i] = kvpool::kernels::bf16_to_float(bits);
  }
  return x;
}

}  // namespace example
