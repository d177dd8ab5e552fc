// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// A model that is small and yet notices every wrong byte of its cache: keys, values and queries
// are numbers drawn from layer, token and position, attention over them is real (the reference
// kernels), and the next token is a hash over the bits of all outputs.
#pragma once

#include <kvpool/block/page_table_view.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/kernels/operands.hpp>
#include <kvpool/model/model_config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace example {

/// The query tokens of a step, ordered by row of the batch.
struct Step {
  std::vector<std::int32_t> tokens{};
  std::vector<std::int32_t> positions{};
  /// [rows + 1] First query token of each row.
  std::vector<std::int32_t> q_indptr{};
};

/// One layer's cache, where it is and what is written in this step.
struct LayerInput {
  /// What the numbers of the layer are drawn from.
  std::int32_t seed = 0;
  /// Keys and values in the pool.
  kvpool::kernels::CachePair cache{};
  /// Tables of the layer's group.
  kvpool::PageTableView tables{};
  /// [query tokens] Slots that keys and values are written to; empty to write none.
  std::span<const std::int64_t> slots{};
  /// Tokens that a token sees before itself; -1 for all.
  std::int32_t window_left = -1;
  /// Whether a token sees only earlier ones.
  bool causal = true;
};

/// Tokens that the model generates: 0, 1 and 2, so that a drafter guesses right now and then.
inline constexpr std::uint64_t kVocabulary = 3;

/// Writes keys and values of a step's tokens into one layer's cache.
[[nodiscard]] kvpool::Result<void> write_cache(const LayerInput& layer, const Step& step);

/// Runs a step through `layers`: writes their caches, then reads them. @return a hash over all
/// outputs for each query token
[[nodiscard]] kvpool::Result<std::vector<std::uint64_t>> forward(std::span<const LayerInput> layers,
                                                                 const Step& step);

/// The token that follows.
[[nodiscard]] inline std::int32_t sample(std::uint64_t hash) {
  return static_cast<std::int32_t>(hash % kVocabulary);
}

/// The target: four layers, every second one with a window.
[[nodiscard]] kvpool::ModelConfig target_config();
/// The drafter: one layer, with a page size of its own.
[[nodiscard]] kvpool::ModelConfig drafter_config();
/// Tokens of the target's window.
inline constexpr std::int32_t kWindow = 48;

/// What the target generates after `prompt`, without pools, pages, drafters or neighbours: each
/// layer's cache is one array with a place for every token.
[[nodiscard]] kvpool::Result<std::vector<std::int32_t>> generate_alone(
    std::span<const std::int32_t> prompt, std::size_t count);

}  // namespace example
