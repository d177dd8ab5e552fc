// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "toy_model.hpp"

#include <kvpool/kernels/narrow_float.hpp>
#include <kvpool/kernels/reference.hpp>

#include <array>
#include <numeric>

namespace example {
namespace {

using kvpool::Result;

constexpr std::int64_t kDim = 16;
constexpr std::int64_t kTargetLayers = 4;

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 31U)) * 0x9E3779B97F4A7C15U;
  return value ^ (value >> 29U);
}

/// A bf16 between -1 and 1.
std::uint16_t draw(std::uint64_t from) {
  const auto number = static_cast<float>(mix(from) >> 40U);  // 24 bits
  return kvpool::kernels::float_to_bf16(number / 8'388'608.0F - 1.0F);
}

/// What is drawn for a token: its query, key and value in one layer.
enum class Part : std::uint64_t { kQuery, kKey, kValue };

std::vector<std::uint16_t> draw_all(const Step& step, std::int32_t seed, Part part,
                                    std::int32_t heads) {
  std::vector<std::uint16_t> numbers;
  numbers.reserve(step.tokens.size() * static_cast<std::size_t>(heads * kDim));
  for (std::size_t t = 0; t < step.tokens.size(); ++t) {
    const std::uint64_t token =
        mix(static_cast<std::uint64_t>(step.tokens[t]) << 34U |
            static_cast<std::uint64_t>(step.positions[t]) << 10U |
            static_cast<std::uint64_t>(seed) << 2U | static_cast<std::uint64_t>(part));
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(heads * kDim); ++i) {
      numbers.push_back(draw(token + i));
    }
  }
  return numbers;
}

/// Attention of one layer; its outputs, as bits.
Result<std::vector<std::uint16_t>> attend(const LayerInput& layer, const Step& step) {
  const std::int32_t heads = layer.cache.query_heads;
  const auto queries = draw_all(step, layer.seed, Part::kQuery, heads);
  std::vector<std::uint16_t> out(queries.size());
  const auto tokens = static_cast<std::int32_t>(step.tokens.size());
  const auto done = kvpool::kernels::reference::attention({.q = queries.data(),
                                                           .out = out.data(),
                                                           .q_indptr = step.q_indptr.data(),
                                                           .table = layer.tables,
                                                           .k = layer.cache.k,
                                                           .v = layer.cache.v,
                                                           .q_token_stride = heads * kDim,
                                                           .q_head_stride = kDim,
                                                           .out_token_stride = heads * kDim,
                                                           .out_head_stride = kDim,
                                                           .scale = 0.25F,
                                                           .tokens = tokens,
                                                           .max_query_tokens = tokens,
                                                           .query_heads = heads,
                                                           .kv_heads = layer.cache.kv_heads,
                                                           .window_left = layer.window_left,
                                                           .causal = layer.causal ? 1 : 0});
  if (!done) {
    return done.error();
  }
  return out;
}

kvpool::ModelConfig model_of(std::int64_t layers, std::int64_t query_heads, std::int64_t kv_heads) {
  kvpool::ModelConfig model{.native_dtype = kvpool::KvDtype::kBf16,
                            .max_positions = kvpool::Tokens{1'024},
                            .query_heads = kvpool::Heads{query_heads}};
  for (std::int64_t i = 0; i < layers; ++i) {
    model.layers.push_back({.index = kvpool::LayerIndex{static_cast<std::int32_t>(i)},
                            .caches = {kvpool::AttentionCache{
                                .query_heads = kvpool::Heads{query_heads},
                                .kv_heads = kvpool::Heads{kv_heads},
                                .key_dim = kDim,
                                .value_dim = kDim,
                                .span = i % 2 == 0 ? kvpool::Span{}
                                                   : kvpool::Span{kvpool::SpanKind::kSlidingWindow,
                                                                  kvpool::Tokens{kWindow}}}}});
  }
  return model;
}

}  // namespace

Result<void> write_cache(const LayerInput& layer, const Step& step) {
  const kvpool::kernels::CachePair& cache = layer.cache;
  const auto keys = draw_all(step, layer.seed, Part::kKey, cache.kv_heads);
  const auto values = draw_all(step, layer.seed, Part::kValue, cache.kv_heads);
  return kvpool::kernels::reference::append(
      {.k = keys.data(),
       .v = values.data(),
       .slot_mapping = layer.slots.data(),
       .k_cache = cache.k,
       .v_cache = cache.v,
       .k_token_stride = cache.kv_heads * kDim,
       .k_head_stride = kDim,
       .v_token_stride = cache.kv_heads * kDim,
       .v_head_stride = kDim,
       .tokens = static_cast<std::int32_t>(step.tokens.size()),
       .kv_heads = cache.kv_heads,
       .tokens_per_block = cache.tokens_per_block});
}

Result<std::vector<std::uint64_t>> forward(std::span<const LayerInput> layers, const Step& step) {
  std::vector<std::uint64_t> hashes(step.tokens.size());
  for (const LayerInput& layer : layers) {
    if (!layer.slots.empty()) {
      if (auto written = write_cache(layer, step); !written) {
        return written.error();
      }
    }
    const auto out = attend(layer, step);
    if (!out) {
      return out.error();
    }
    const std::size_t width = out->size() / hashes.size();
    for (std::size_t i = 0; i < out->size(); ++i) {
      hashes[i / width] = mix(hashes[i / width] ^ (*out)[i]);
    }
  }
  return hashes;
}

kvpool::ModelConfig target_config() {
  kvpool::ModelConfig model = model_of(kTargetLayers, 4, 2);
  model.name = "toy target";
  return model;
}

kvpool::ModelConfig drafter_config() {
  kvpool::ModelConfig model = model_of(1, 2, 1);
  model.name = "toy drafter";
  model.drafter = kvpool::DrafterTraits{.kind = kvpool::DrafterKind::kDflash,
                                        .block_tokens = kvpool::Tokens{4}};
  return model;
}

Result<std::vector<std::int32_t>> generate_alone(std::span<const std::int32_t> prompt,
                                                 std::size_t count) {
  constexpr std::int64_t kHeads = 2;
  const auto length = static_cast<std::int32_t>(prompt.size() + count);
  const std::int64_t row = kDim * std::int64_t{sizeof(std::uint16_t)};
  // Per layer keys, then values, [token][head][dim]: one page that holds everything.
  const std::size_t half = static_cast<std::size_t>(length) * kHeads * kDim;
  std::vector<std::uint16_t> memory(half * 2 * kTargetLayers);
  const std::int32_t entry = 0;
  std::int32_t seen = 0;

  std::vector<LayerInput> layers;
  for (std::int32_t i = 0; i < kTargetLayers; ++i) {
    const auto operand = [&](std::size_t offset) {
      return kvpool::kernels::CacheOperand{.base = memory.data() + offset,
                                           .entry_stride_bytes = length * kHeads * row,
                                           .head_stride_bytes = row,
                                           .slot_stride_bytes = kHeads * row,
                                           .dim = kDim};
    };
    const std::size_t start = static_cast<std::size_t>(i) * 2 * half;
    layers.push_back({.seed = i,
                      .cache = {.k = operand(start),
                                .v = operand(start + half),
                                .kv_heads = kHeads,
                                .query_heads = 2 * kHeads,
                                .tokens_per_block = length},
                      .tables = {.entries = &entry,
                                 .lengths = &seen,
                                 .row_stride_entries = 1,
                                 .unit_bytes = 16,
                                 .rows = 1,
                                 .tokens_per_block = length},
                      .window_left = i % 2 == 0 ? -1 : kWindow - 1});
  }

  std::vector<std::int32_t> output;
  std::vector<std::int32_t> next{prompt.begin(), prompt.end()};
  while (output.size() < count) {
    const auto tokens = static_cast<std::int32_t>(next.size());
    Step step{.tokens = next, .positions = {}, .q_indptr = {0, tokens}};
    step.positions.resize(next.size());
    std::iota(step.positions.begin(), step.positions.end(), seen);
    const std::vector<std::int64_t> slots{step.positions.begin(), step.positions.end()};
    for (LayerInput& layer : layers) {
      layer.slots = slots;
    }
    seen += tokens;
    const auto hashes = forward(layers, step);
    if (!hashes) {
      return hashes.error();
    }
    output.push_back(sample(hashes->back()));
    next = {output.back()};
  }
  return output;
}

}  // namespace example
