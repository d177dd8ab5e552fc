// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Attention as a textbook has it, in fp64, over plain tensors: no pages, no params struct, nothing
// of the library.
#pragma once

#include <cstdint>
#include <vector>

namespace kvpool::test {

/// What all sequences of a batch have in common.
struct DenseProblem {
  std::int64_t query_heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t key_dim = 8;
  std::int64_t value_dim = 8;
  double scale = 1.0;
  double softcap = 0.0;  ///< 0: none
  bool causal = true;
  std::int64_t window_left = -1;   ///< -1: none
  std::int64_t window_right = -1;  ///< -1: none
  std::vector<double> sinks{};     ///< one a head, or empty
};

/// One sequence. The queries are those of its last tokens.
struct DenseSequence {
  std::int64_t length = 0;
  std::int64_t queries = 0;
  std::vector<double> q{};  ///< [queries, query_heads, key_dim]
  std::vector<double> k{};  ///< [length, kv_heads, key_dim]
  std::vector<double> v{};  ///< [length, kv_heads, value_dim]
};

struct DenseResult {
  std::vector<double> out{};          ///< [queries, query_heads, value_dim]
  std::vector<double> lse_natural{};  ///< [queries, query_heads], without the sink
};

[[nodiscard]] DenseResult dense_attention(const DenseProblem& problem,
                                          const DenseSequence& sequence);

}  // namespace kvpool::test
