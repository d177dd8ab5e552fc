// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Attention on the device against the dense oracle, which gets the raw tensors, and against the
// reference on the host, which gets the same pages.
#pragma once

#include <kvpool/kernels/reference.hpp>

#include "kernels/compare.hpp"
#include "kernels/dense_oracle.hpp"
#include "kernels/device_batch.hpp"
#include "kernels/gpu_support.hpp"
#include "kernels/paged_batch.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

namespace kvpool::test {

/// What the oracle has for sequence `row` of `length` tokens, scaled as `params` say.
inline DenseResult expected(const PagedBatch& batch, const kernels::AttentionParams& params,
                            std::size_t row, std::int32_t length) {
  const BatchShape& shape = batch.shape();
  DenseProblem problem{.query_heads = params.query_heads,
                       .kv_heads = params.kv_heads,
                       .key_dim = shape.k_dim,
                       .value_dim = shape.v_dim,
                       .scale = double{params.scale} * double{params.k_scale},
                       .softcap = params.softcap,
                       .causal = params.causal != 0,
                       .window_left = params.window_left,
                       .window_right = params.window_right};
  if (params.sinks != nullptr) {
    problem.sinks.assign(batch.sinks.begin(), batch.sinks.end());
  }
  std::int64_t first_token = 0;
  for (std::size_t i = 0; i < row; ++i) {
    first_token += shape.lengths[i];
  }
  const auto part = [](const std::vector<float>& values, std::int64_t first, std::int64_t count,
                       std::int64_t width) {
    const auto* from = values.data() + first * width;
    return std::vector<double>(from, from + count * width);
  };
  DenseSequence sequence{.length = length, .queries = shape.queries[row]};
  sequence.q = part(batch.q, batch.q_indptr[row], shape.queries[row],
                    std::int64_t{params.query_heads} * shape.k_dim);
  sequence.k = part(batch.k, first_token, length, std::int64_t{shape.kv_heads} * shape.k_dim);
  sequence.v = part(batch.v, first_token, length, std::int64_t{shape.kv_heads} * shape.v_dim);
  DenseResult result = dense_attention(problem, sequence);
  for (double& value : result.out) {
    value *= double{params.v_scale};
  }
  for (double& lse : result.lse_natural) {
    lse *= params.lse_base == kernels::LogBase::kTwo ? std::numbers::log2e : 1.0;
  }
  return result;
}

/// The reference on the host over the batch's own pages. `params` are those of a device.
inline AttentionResult on_host(const PagedBatch& batch, kernels::AttentionParams params,
                               const std::vector<std::int32_t>& lengths) {
  std::vector<std::byte> pool = batch.pool;
  const Elements elements{batch.shape().type};
  const auto q = elements.bytes(batch.q);
  const auto rows = static_cast<std::size_t>(batch.query_tokens() * batch.query_heads());
  const auto size = static_cast<std::size_t>(batch.element());
  std::vector<std::byte> out(rows * static_cast<std::size_t>(batch.shape().v_dim) * size);
  AttentionResult result{.out = {}, .lse = std::vector<float>(rows)};
  params.q = q.data();
  params.out = out.data();
  params.lse = result.lse.data();
  params.sinks = params.sinks == nullptr ? nullptr : batch.sinks.data();
  params.q_indptr = params.q_indptr == nullptr ? nullptr : batch.q_indptr.data();
  params.table.entries = batch.entries.data();
  params.table.lengths = lengths.data();
  params.k = batch.k_cache(pool.data());
  params.v = batch.v_cache(pool.data());
  must(kernels::reference::attention(params));
  for (std::size_t i = 0; i < out.size(); i += size) {
    result.out.push_back(elements.load(out.data() + i));
  }
  return result;
}

/// Bounds beyond those of compare.hpp: an fp32 result is better than a 16-bit one.
inline bool precise(kernels::ElementType type, const Comparison& outputs) {
  return type != kernels::ElementType::kFp32 || outputs.relative_l2 < 1e-5;
}

/// Checks what attention on the device has written. `lengths` are the batch's unless given.
inline void check_attention(const PagedBatch& batch, const kernels::AttentionParams& params,
                            const AttentionResult& result, std::vector<std::int32_t> lengths = {}) {
  static Measurements table{"attention_accuracy",
                            "test,type,k_dim,v_dim,page,row,length,rel_l2,ulp,lse_difference"};
  const BatchShape& shape = batch.shape();
  if (lengths.empty()) {
    lengths = shape.lengths;
  }
  const AttentionResult reference = on_host(batch, params, lengths);
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    const DenseResult oracle = expected(batch, params, row, lengths[row]);
    const auto part = [&](const std::vector<float>& values, std::int64_t width) {
      const auto* from = values.data() + batch.q_indptr[row] * width;
      return std::vector<float>(from, from + shape.queries[row] * width);
    };
    const std::int64_t heads = params.query_heads;
    const auto out = part(result.out, heads * shape.v_dim);
    const auto lse = part(result.lse, heads);
    const auto host_out = part(reference.out, heads * shape.v_dim);
    const Comparison outputs = compare_outputs(out, oracle.out, shape.type);
    const Comparison sums = compare_lse(lse, oracle.lse_natural);
    const Comparison outputs_of_host =
        compare_outputs(out, {host_out.begin(), host_out.end()}, shape.type);
    const auto host_lse = part(reference.lse, heads);
    const Comparison sums_of_host = compare_lse(lse, {host_lse.begin(), host_lse.end()});
    INFO("sequence " << row << " of " << lengths[row] << " tokens and " << shape.queries[row]
                     << " queries, pages of " << shape.page << ", type "
                     << static_cast<int>(shape.type));
    INFO("against the oracle: " << outputs.text());
    INFO("log-sum-exp: " << sums.text());
    INFO("against the reference: " << outputs_of_host.text());
    CHECK(outputs.within);
    CHECK(precise(shape.type, outputs));
    CHECK(sums.within);
    CHECK(outputs_of_host.within);
    CHECK(sums_of_host.within);
    const auto dim = static_cast<std::size_t>(shape.v_dim);
    bool zeros = true;
    for (std::size_t i = 0; i < out.size(); ++i) {
      zeros = zeros && (std::isfinite(oracle.lse_natural[i / dim]) || out[i] == 0.0F);
    }
    CHECK(zeros);  // where there is no key
    table.row(Catch::getResultCapture().getCurrentTestName(), static_cast<int>(shape.type),
              shape.k_dim, shape.v_dim, shape.page, row, lengths[row], outputs.relative_l2,
              outputs.ulps, sums.largest_difference);
  }
}

/// Runs attention on the device and checks it. `lengths` are the batch's unless given.
inline void check_attention(const PagedBatch& batch, const DeviceBatch& device,
                            const kernels::AttentionParams& params,
                            const std::vector<std::int32_t>& lengths = {}) {
  check_attention(batch, params, device.run(params), lengths);
}

}  // namespace kvpool::test
