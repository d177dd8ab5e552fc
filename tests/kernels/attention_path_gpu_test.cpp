// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The classic forms on the device, against the oracle and against each other.
#include <kvpool/kernels/attention_path.hpp>

#include "kernels/attention_checks.hpp"
#include "kernels/compare.hpp"
#include "kernels/device_batch.hpp"
#include "kernels/paged_batch.hpp"
#include "kernels/path_batch.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace kvpool::test {
namespace {

using kernels::AttentionPath;
using kernels::ElementType;
using kernels::PathCalls;
using kernels::PathPolicy;

kernels::AttentionParams without_mask(const DeviceBatch& device) {
  kernels::AttentionParams params = device.attention();
  params.causal = 0;
  return params;
}

/// At least 34 requests of unequal length, on pages of their own.
PagedBatch unequal_batch(std::int32_t requests, std::int32_t queries, std::int32_t dim,
                         std::int32_t group) {
  std::mt19937 random{static_cast<std::uint32_t>(requests + dim)};
  std::vector<std::int32_t> lengths;
  for (std::int32_t i = 0; i < requests; ++i) {
    const auto draw = static_cast<std::int32_t>(random() % 900);
    lengths.push_back(i % 9 == 4 ? 0 : i == 0 ? 3001 : draw + queries);
  }
  return PagedBatch{{.rows = Rows::kHeadsTokens,
                     .kv_heads = 2,
                     .group = group,
                     .k_dim = dim,
                     .v_dim = dim,
                     .page = 32,
                     .lengths = lengths,
                     .queries = std::vector<std::int32_t>(lengths.size(), queries)}};
}

TEST_CASE("decode rows and context agree with the oracle, and with each other", "[path]") {
  const auto requests = GENERATE(1, 2, 32, 33, 40);
  const auto dim = GENERATE(64, 128);
  const auto group = GENERATE(4, 6);
  INFO(requests << " requests, dim " << dim << ", group " << group);
  const PagedBatch batch = unequal_batch(requests, 7, dim, group);
  const DeviceBatch device{batch};
  const kernels::AttentionParams params = without_mask(device);
  PathCalls calls;
  std::vector<AttentionResult> results;
  for (const AttentionPath path :
       {AttentionPath::kPacked, AttentionPath::kDecodeRows, AttentionPath::kContext}) {
    INFO(kernels::to_string(path));
    const PathBatch on_path{batch, device, params, path};
    results.push_back(on_path.run(calls));
    check_result(batch, params, results.back(), batch.shape().lengths);
    // Once more, bit for bit.
    const AttentionResult again = on_path.run(calls);
    CHECK(again.out == results.back().out);
    CHECK(again.lse == results.back().lse);
  }
  CHECK(calls == PathCalls{.packed = 2, .decode_rows = 2, .context = 2});
  const std::vector<double> context{results[2].out.begin(), results[2].out.end()};
  const Comparison difference = compare_outputs(results[1].out, context, batch.shape().type);
  INFO("rows against context: " << difference.text());
  CHECK(difference.within);
  const std::vector<double> sums{results[2].lse.begin(), results[2].lse.end()};
  CHECK(compare_lse(results[1].lse, sums).within);
}

TEST_CASE("the gate decides which form runs, batch by batch", "[path]") {
  struct Step {
    std::int64_t batch, limit;
    PathCalls calls;
  };
  // The gate of SM100, and one that was lowered to 1.
  const auto step = GENERATE(values<Step>({{1, 32, {.decode_rows = 1}},
                                           {2, 32, {.decode_rows = 1}},
                                           {32, 32, {.decode_rows = 1}},
                                           {33, 32, {.context = 1}},
                                           {2, 1, {.context = 1}}}));
  INFO("batch " << step.batch << ", limit " << step.limit);
  const PagedBatch batch = unequal_batch(static_cast<std::int32_t>(step.batch), 7, 64, 4);
  const DeviceBatch device{batch};
  const kernels::AttentionParams params = without_mask(device);
  const AttentionPath path =
      must(kernels::choose_path(PathPolicy::kClassic, {.causal = 0}, step.batch, step.limit));
  PathCalls calls;
  check_result(batch, params, PathBatch{batch, device, params, path}.run(calls),
               batch.shape().lengths);
  CHECK(calls == step.calls);
}

TEST_CASE("a drafter of four sliding layers and a full one mixes paths on the device", "[path]") {
  // 32 query heads, 8 KV heads, head dim 128, a block of 16 and a window of 2,048, of which a token
  // sees itself and 2,047 before it.
  const PagedBatch batch{{.rows = Rows::kHeadsTokens,
                          .kv_heads = 8,
                          .group = 4,
                          .k_dim = 128,
                          .v_dim = 128,
                          .page = 64,
                          .lengths = {2100, 16, 0},
                          .queries = {16, 16, 16}}};
  const DeviceBatch device{batch};
  const auto limit = GENERATE(32, 1);
  PathCalls calls;
  for (int layer = 0; layer < 5; ++layer) {
    kernels::AttentionParams params = without_mask(device);
    params.window_left = layer < 4 ? 2047 : -1;
    const AttentionPath path = must(kernels::choose_path(
        PathPolicy::kClassic, {params.causal, params.window_left, params.window_right}, 3, limit));
    check_result(batch, params, PathBatch{batch, device, params, path}.run(calls),
                 batch.shape().lengths);
  }
  CHECK(calls == (limit == 32 ? PathCalls{.packed = 4, .decode_rows = 1}
                              : PathCalls{.packed = 4, .context = 1}));
}

TEST_CASE("paths on a few shapes, for checkers of memory and races", "[path][sanitize]") {
  const PagedBatch batch = unequal_batch(3, 3, 64, 2);
  const DeviceBatch device{batch};
  const kernels::AttentionParams params = without_mask(device);
  PathCalls calls;
  for (const AttentionPath path : {AttentionPath::kDecodeRows, AttentionPath::kContext}) {
    check_result(batch, params, PathBatch{batch, device, params, path}.run(calls),
                 batch.shape().lengths);
  }
  CHECK(calls == PathCalls{.decode_rows = 1, .context = 1});
}

TEST_CASE("queries and keys of 0 show the visible keys on every path", "[path]") {
  // All scores are equal, so an output is the mean of the visible values: key j holds 2^(j % 16) in
  // column j / 16 and 0 elsewhere, and the mean times the number of keys is a set of bits.
  constexpr std::int32_t kLength = 100;
  PagedBatch batch{{.kv_heads = 1, .group = 2, .page = 16, .lengths = {kLength}, .queries = {7}}};
  std::vector<std::byte> pool = batch.pool;
  const Elements elements{ElementType::kBf16};
  for (std::int32_t j = 0; j < kLength; ++j) {
    const std::int64_t slot = batch.slots[static_cast<std::size_t>(j)];
    const auto row_of = [&](const kernels::CacheOperand& cache) {
      return static_cast<std::byte*>(cache.base) +
             kernels::row_offset(cache, slot / 16, 0, slot % 16);
    };
    for (std::int32_t i = 0; i < 64; ++i) {
      elements.store(row_of(batch.k_cache(pool.data())) + 2 * i, 0.0F);
      elements.store(row_of(batch.v_cache(pool.data())) + 2 * i,
                     i == j / 16 ? static_cast<float>(1 << j % 16) : 0.0F);
    }
  }
  batch.pool = pool;
  std::ranges::fill(batch.q, 0.0F);
  const DeviceBatch device{batch};
  const auto path =
      GENERATE(AttentionPath::kPacked, AttentionPath::kDecodeRows, AttentionPath::kContext);
  INFO(kernels::to_string(path));
  PathCalls calls;
  const AttentionResult result = PathBatch{batch, device, without_mask(device), path}.run(calls);
  for (std::size_t row = 0; row < 14; ++row) {
    CHECK(result.lse[row] == Approx(std::log2(100.0)).margin(1e-3));
    for (std::size_t column = 0; column < 64; ++column) {
      // Six columns of 16 keys, one of four.
      const float bits = column < 6 ? 65'535.0F : column == 6 ? 15.0F : 0.0F;
      CHECK(result.out[row * 64 + column] == Approx(bits / 100.0F).epsilon(1.0 / 256));
    }
  }
}

TEST_CASE("a captured expansion follows the device's lengths", "[path]") {
  const PagedBatch batch = unequal_batch(3, 7, 64, 4);
  const DeviceBatch device{batch};
  const DeviceBytes lengths{std::vector<std::int32_t>(3, 0)};
  kernels::AttentionParams params = without_mask(device);
  params.table.lengths = lengths.as<std::int32_t>();
  const PathBatch rows{batch, device, params, AttentionPath::kDecodeRows};
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  require_cuda(cudaStreamCreate(&stream));
  require_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  rows.prepare({stream});
  require_cuda(cudaStreamEndCapture(stream, &graph));
  require_cuda(cudaGraphInstantiate(&executable, graph, 0));
  for (const std::vector<std::int32_t>& now :
       {std::vector{3001, 10, 0}, std::vector{0, 7, 33}, std::vector{64, 0, 0}}) {
    require_cuda(cudaMemcpy(lengths.at(0), now.data(), 12, cudaMemcpyHostToDevice));
    require_cuda(cudaGraphLaunch(executable, stream));
    require_cuda(cudaStreamSynchronize(stream));
    std::vector<std::int32_t> expected;
    for (const std::int32_t length : now) {
      expected.insert(expected.end(), 7, length);
    }
    CHECK(rows.row_lengths() == expected);
  }
  require_cuda(cudaGraphExecDestroy(executable));
  require_cuda(cudaGraphDestroy(graph));
  require_cuda(cudaStreamDestroy(stream));
}

}  // namespace
}  // namespace kvpool::test
