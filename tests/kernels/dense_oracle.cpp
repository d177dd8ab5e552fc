// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dense_oracle.hpp"

#include <cmath>
#include <cstddef>
#include <limits>

namespace kvpool::test {
namespace {

bool sees(const DenseProblem& problem, std::int64_t position, std::int64_t key) {
  if (problem.causal && key > position) {
    return false;
  }
  if (problem.window_left != -1 && position - key > problem.window_left) {
    return false;
  }
  return problem.window_right == -1 || key - position <= problem.window_right;
}

double logit(const DenseProblem& problem, const double* q, const double* k) {
  double dot = 0.0;
  for (std::int64_t i = 0; i < problem.key_dim; ++i) {
    dot += q[i] * k[i];
  }
  dot *= problem.scale;
  return problem.softcap == 0.0 ? dot : problem.softcap * std::tanh(dot / problem.softcap);
}

}  // namespace

DenseResult dense_attention(const DenseProblem& problem, const DenseSequence& sequence) {
  const std::int64_t heads = problem.query_heads;
  const std::int64_t group = heads / problem.kv_heads;
  DenseResult result;
  result.out.assign(static_cast<std::size_t>(sequence.queries * heads * problem.value_dim), 0.0);
  for (std::int64_t query = 0; query < sequence.queries; ++query) {
    const std::int64_t position = sequence.length - sequence.queries + query;
    for (std::int64_t head = 0; head < heads; ++head) {
      const double* const q = sequence.q.data() + (query * heads + head) * problem.key_dim;
      const auto row = [&](std::int64_t key) { return key * problem.kv_heads + head / group; };
      std::vector<std::int64_t> keys;
      std::vector<double> logits;
      double largest = -std::numeric_limits<double>::infinity();
      for (std::int64_t key = 0; key < sequence.length; ++key) {
        if (sees(problem, position, key)) {
          keys.push_back(key);
          logits.push_back(logit(problem, q, sequence.k.data() + row(key) * problem.key_dim));
          largest = std::fmax(largest, logits.back());
        }
      }
      if (keys.empty()) {
        result.lse_natural.push_back(largest);
        continue;
      }
      double sum = 0.0;
      for (const double each : logits) {
        sum += std::exp(each - largest);
      }
      result.lse_natural.push_back(largest + std::log(sum));
      const double sink = problem.sinks.empty()
                              ? 0.0
                              : std::exp(problem.sinks[static_cast<std::size_t>(head)] - largest);
      double* const out = result.out.data() + (query * heads + head) * problem.value_dim;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const double weight = std::exp(logits[i] - largest) / (sum + sink);
        const double* const v = sequence.v.data() + row(keys[i]) * problem.value_dim;
        for (std::int64_t d = 0; d < problem.value_dim; ++d) {
          out[d] += weight * v[d];
        }
      }
    }
  }
  return result;
}

}  // namespace kvpool::test
