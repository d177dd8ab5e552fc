// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_checks.hpp"
#include "kernels/device_batch.hpp"
#include "kernels/packed_batch.hpp"
#include "kernels/paged_batch.hpp"
#include "support/catch.hpp"

// Which instances there are is private to the kernels.
#include "capability_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace kvpool::test {
namespace {

using kernels::ElementType;

/// Empty, one token, around a step, a page and a tile of 128, and longer.
std::vector<std::int32_t> mixed_lengths(std::int32_t page) {
  return {0, 1, 15, 16, 17, page - 1, page, page + 1, 127, 128, 129, 1000, 0, 2 * page + 5};
}
/// With the lengths above: rows without tokens and without queries, and more queries than tokens.
std::vector<std::int32_t> mixed_queries(std::int32_t most) {
  std::vector<std::int32_t> queries = {2, 3, 1, 1, 4, 7, 0, 16, 8, 1, 2, 5, 0, 16};
  for (std::int32_t& count : queries) {
    count = std::min(count, most);
  }
  return queries;
}

void check_packed(const PagedBatch& batch, const DeviceBatch& device,
                  const kernels::AttentionParams& params, PackedRun run = {}) {
  const PackedBatch packed{device, params, run};
  check_result(batch, packed.params(), packed.run(), batch.shape().lengths);
}

TEST_CASE("packed attention agrees with a dense one in every layout, page and type", "[packed]") {
  const auto type = GENERATE(ElementType::kBf16, ElementType::kFp16);
  const auto page = GENERATE(16, 32, 64, 128);
  const auto rows = GENERATE(Rows::kTokensHeads, Rows::kHeadsTokens, Rows::kInterleaved);
  const auto dim = GENERATE(64, 128);
  const PagedBatch batch{{.type = type,
                          .rows = rows,
                          .layer_major = page == 64,
                          .k_dim = dim,
                          .v_dim = dim,
                          .page = page,
                          .lengths = mixed_lengths(page),
                          .queries = mixed_queries(7)}};
  const DeviceBatch device{batch};
  check_packed(batch, device, device.attention());
}

TEST_CASE("packed attention on a few shapes, for checkers of memory and races",
          "[packed][sanitize]") {
  struct Shape {
    std::int32_t dim, group, queries, blocks, split;
  };
  const auto shape = GENERATE(values<Shape>({{64, 2, 1, 3, 0},
                                             {64, 4, 7, 5, 0},
                                             {64, 6, 7, 3, 0},
                                             {128, 4, 7, 5, 0},
                                             {128, 8, 8, 2, 0},
                                             {64, 4, 7, 4, 64}}));
  const PagedBatch batch{{.rows = Rows::kHeadsTokens,
                          .kv_heads = 1,
                          .group = shape.group,
                          .k_dim = shape.dim,
                          .v_dim = shape.dim,
                          .page = 32,
                          .lengths = {700, 0, 17},
                          .queries = std::vector<std::int32_t>(3, shape.queries)}};
  const DeviceBatch device{batch};
  check_packed(batch, device, device.attention(),
               {.split_tokens = shape.split, .blocks = shape.blocks, .max_length = 700});
}

TEST_CASE("every compiled instance of packed attention, also those that no shape here chooses",
          "[packed][sanitize]") {
  // As many rows as its tile holds, less half a tile of 16, and as many more.
  const auto queries = GENERATE(1, 2);
  for (std::size_t i = 0; i < kernels::kPackedInstances.size(); ++i) {
    const kernels::PackedInstance& instance = kernels::kPackedInstances[i];
    INFO("instance " << i << ", " << queries << " tiles of rows");
    const PagedBatch batch{
        {.type = instance.type,
         .rows = Rows::kHeadsTokens,
         .kv_heads = 2,
         .group = 8,
         .k_dim = instance.dim,
         .v_dim = instance.dim,
         .page = 32,
         .lengths = {500, 0, 17},
         .queries = std::vector<std::int32_t>(
             3, queries == 1 ? 2 * instance.row_tiles - 1 : 2 * instance.row_tiles + 1)}};
    const DeviceBatch device{batch};
    check_packed(batch, device, device.attention(),
                 {.blocks = 5, .instance = static_cast<std::int32_t>(i)});
  }
}

TEST_CASE("packed attention takes every group and number of queries", "[packed]") {
  const auto group = GENERATE(1, 2, 3, 4, 5, 6, 7, 8, 16);
  const auto queries = GENERATE(1, 2, 3, 7, 8, 16);
  const auto dim = GENERATE(64, 128);
  const auto causal = GENERATE(0, 1);
  INFO("group " << group << ", queries " << queries << ", dim " << dim << ", causal " << causal);
  const PagedBatch batch{
      {.type = (group + queries) % 2 == 0 ? ElementType::kBf16 : ElementType::kFp16,
       .rows = Rows::kHeadsTokens,
       .kv_heads = 2,
       .group = group,
       .k_dim = dim,
       .v_dim = dim,
       .page = 32,
       .lengths = {700, 0, 33, 5, 64},
       .queries = std::vector<std::int32_t>(5, queries)}};
  const DeviceBatch device{batch};
  kernels::AttentionParams params = device.attention();
  params.causal = causal;
  check_packed(batch, device, params);
}

TEST_CASE("packed attention applies masks, cap, sinks and scales", "[packed]") {
  struct Mask {
    std::int32_t causal, left, right;
  };
  const auto mask = GENERATE(values<Mask>({{1, -1, -1},
                                           {0, -1, -1},
                                           {1, 0, -1},
                                           {1, 15, -1},
                                           {1, 16, -1},
                                           {0, 17, -1},
                                           {0, 31, 0},
                                           {0, -1, 3},
                                           {0, 5, 2},
                                           {1, 100, -1},
                                           {1, 1000, 1000}}));
  const auto softcap = GENERATE(0.0F, 1.5F);
  const auto with_sinks = GENERATE(false, true);
  const auto split = GENERATE(0, 64);
  INFO("causal " << mask.causal << ", left " << mask.left << ", right " << mask.right
                 << ", softcap " << softcap << ", sinks " << with_sinks << ", split " << split);
  const PagedBatch batch{
      {.group = 3, .page = 16, .lengths = mixed_lengths(16), .queries = mixed_queries(16)}};
  const DeviceBatch device{batch};
  kernels::AttentionParams params = device.attention();
  params.causal = mask.causal;
  params.window_left = mask.left;
  params.window_right = mask.right;
  params.softcap = softcap;
  params.sinks = with_sinks ? device.sinks() : nullptr;
  params.lse_base = with_sinks ? kernels::LogBase::kNatural : kernels::LogBase::kTwo;
  params.k_scale = 0.75F;
  params.v_scale = 1.25F;
  check_packed(batch, device, params, {.split_tokens = split});
}

TEST_CASE("packed attention scales by anything", "[packed]") {
  const auto scale = GENERATE(-2.0F, 0.0F, 2.0F, -0.125F);
  const PagedBatch batch{{.page = 32, .lengths = {200, 3, 1000}, .queries = {4, 2, 1}}};
  const DeviceBatch device{batch};
  kernels::AttentionParams params = device.attention();
  params.scale = scale;
  params.sinks = device.sinks();
  check_packed(batch, device, params);
}

TEST_CASE("packed attention merges any number of parts", "[packed]") {
  // One long sequence over one block, some, and all of them.
  const auto blocks = GENERATE(1, 2, 3, 7, 64, 0);
  const auto split = GENERATE(0, 16, 48, 2048);
  const auto dim = GENERATE(64, 128);
  INFO("blocks " << blocks << ", split " << split << ", dim " << dim);
  const PagedBatch batch{{.kv_heads = 1,
                          .group = 4,
                          .k_dim = dim,
                          .v_dim = dim,
                          .page = 64,
                          .lengths = {4097, 0, 130},
                          .queries = {7, 2, 1}}};
  const DeviceBatch device{batch};
  kernels::AttentionParams params = device.attention();
  params.causal = split == 16 ? 0 : 1;
  check_packed(batch, device, params,
               {.split_tokens = split, .blocks = blocks, .max_length = 4097});
}

TEST_CASE("packed attention takes many rows, empty ones and equal ones among them", "[packed]") {
  const auto rows = GENERATE(1, 2, 34, 140, 1100);
  const auto equal = GENERATE(false, true);
  std::mt19937 random{static_cast<std::uint32_t>(rows)};
  std::vector<std::int32_t> lengths;
  for (int i = 0; i < rows; ++i) {
    const auto draw = static_cast<std::int32_t>(random() % 400);
    lengths.push_back(equal ? 96 : draw % 5 == 0 ? 0 : rows > 500 ? draw / 8 : draw);
  }
  const PagedBatch batch{{.rows = Rows::kHeadsTokens,
                          .kv_heads = 2,
                          .group = 2,
                          .page = 32,
                          .lengths = lengths,
                          .queries = std::vector<std::int32_t>(static_cast<std::size_t>(rows), 1)}};
  const DeviceBatch device{batch};
  kernels::AttentionParams params = device.attention();
  params.q_indptr = nullptr;
  check_packed(batch, device, params);
}

TEST_CASE("packed attention reads pages of any multiple of 16, and of odd sizes", "[packed]") {
  const auto page = GENERATE(48, 80, 192, 256, 4096);
  const PagedBatch batch{
      {.page = page, .lengths = {3 * page / 2, page, 17, 0}, .queries = {3, 1, 2, 1}}};
  const DeviceBatch device{batch};
  check_packed(batch, device, device.attention());
}

TEST_CASE("packed attention does not depend on pages and layouts, and repeats", "[packed]") {
  const auto dim = GENERATE(64, 128);
  const auto result = [dim](std::int32_t page, Rows rows, bool layer_major) {
    const PagedBatch batch{{.rows = rows,
                            .layer_major = layer_major,
                            .group = 4,
                            .k_dim = dim,
                            .v_dim = dim,
                            .page = page,
                            .lengths = {3000, 33, 0, 500},
                            .queries = {7, 1, 1, 2}}};
    const DeviceBatch device{batch};
    const PackedBatch packed{device, device.attention()};
    AttentionResult first = packed.run();
    const AttentionResult second = packed.run();
    CHECK(first.out == second.out);
    CHECK(first.lse == second.lse);
    return first;
  };
  const AttentionResult reference = result(16, Rows::kTokensHeads, false);
  for (const std::int32_t page : {16, 32, 64, 128}) {
    for (const Rows rows : {Rows::kTokensHeads, Rows::kHeadsTokens, Rows::kInterleaved}) {
      const AttentionResult other = result(page, rows, page == 32);
      CHECK(other.out == reference.out);
      CHECK(other.lse == reference.lse);
    }
  }
}

TEST_CASE("with a fixed split a result does not depend on the rest of the batch", "[packed]") {
  const auto dim = GENERATE(64, 128);
  const std::vector<std::int32_t> lengths = {2000, 33, 700, 1, 4000, 256, 512};
  const PagedBatch batch{{.group = 4,
                          .k_dim = dim,
                          .v_dim = dim,
                          .page = 32,
                          .lengths = lengths,
                          .queries = std::vector<std::int32_t>(lengths.size(), 3)}};
  const DeviceBatch device{batch};
  kernels::AttentionParams params = device.attention();
  params.q_indptr = nullptr;
  const AttentionResult all = PackedBatch{device, params, {.split_tokens = 256}}.run();
  for (const std::int32_t rows : {1, 2, 5}) {
    for (const std::int32_t blocks : {0, 3}) {
      kernels::AttentionParams some = params;
      some.table.rows = rows;
      some.tokens = 3 * rows;
      const AttentionResult part =
          PackedBatch{device, some, {.split_tokens = 256, .blocks = blocks}}.run();
      const auto values = static_cast<std::ptrdiff_t>(3 * rows * params.query_heads);
      CHECK(std::equal(part.lse.begin(), part.lse.begin() + values, all.lse.begin()));
      CHECK(std::equal(part.out.begin(), part.out.begin() + values * dim, all.out.begin()));
    }
  }
}

/// The batch with its pages in another order: pool and table entries.
std::pair<std::vector<std::byte>, std::vector<std::int32_t>> reordered(const PagedBatch& batch) {
  const auto page = static_cast<std::size_t>(batch.entry_stride());
  const std::size_t pages = batch.pool.size() / page;
  std::vector<std::byte> pool(batch.pool.size(), std::byte{0xFF});
  for (std::size_t i = 1; i < pages; ++i) {
    std::copy_n(batch.pool.begin() + static_cast<std::ptrdiff_t>(i * page), page,
                pool.begin() + static_cast<std::ptrdiff_t>((pages - i) * page));
  }
  std::vector<std::int32_t> entries = batch.entries;
  for (std::int32_t& entry : entries) {
    entry = entry == std::numeric_limits<std::int32_t>::max()
                ? entry
                : static_cast<std::int32_t>(pages) - entry;
  }
  return {pool, entries};
}

TEST_CASE("with a fixed split rows may stand in any order", "[packed]") {
  const std::vector<std::int32_t> lengths = {2000, 33, 700, 0, 4000, 256};
  const std::vector<std::size_t> order = {4, 0, 5, 3, 1, 2};
  const PagedBatch batch{{.group = 4,
                          .page = 32,
                          .lengths = lengths,
                          .queries = std::vector<std::int32_t>(lengths.size(), 3)}};
  const DeviceBatch device{batch};
  kernels::AttentionParams params = device.attention();
  params.q_indptr = nullptr;
  const AttentionResult in_order = PackedBatch{device, params, {.split_tokens = 256}}.run();
  // Table rows, lengths and queries of the same sequences in another order.
  const auto moved = [&order](const auto& values, std::size_t width) {
    auto result = values;
    for (std::size_t row = 0; row < order.size(); ++row) {
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(order[row] * width), width,
                  result.begin() + static_cast<std::ptrdiff_t>(row * width));
    }
    return result;
  };
  const std::size_t row_values = std::size_t{3} * 8 * 64;
  const DeviceBytes entries{moved(batch.entries, static_cast<std::size_t>(batch.columns))};
  const DeviceBytes moved_lengths{moved(lengths, 1)};
  const DeviceBytes q{Elements{ElementType::kBf16}.bytes(moved(batch.q, row_values))};
  params.table.entries = entries.as<std::int32_t>();
  params.table.lengths = moved_lengths.as<std::int32_t>();
  params.q = q.at(0);
  const AttentionResult other = PackedBatch{device, params, {.split_tokens = 256}}.run();
  CHECK(other.out == moved(in_order.out, row_values));
  CHECK(other.lse == moved(in_order.lse, 24));
}

TEST_CASE("a captured plan and launch serve other lengths and tables when they are replayed",
          "[packed]") {
  const PagedBatch batch{
      {.group = 4, .page = 32, .lengths = {5000, 200, 64, 900}, .queries = {7, 7, 7, 7}}};
  const DeviceBatch device{batch};
  const DeviceBytes lengths{std::vector<std::int32_t>(4, 0)};
  DeviceBytes entries{batch.entries};
  kernels::AttentionParams params = device.attention();
  params.causal = 0;
  params.table.lengths = lengths.as<std::int32_t>();
  params.table.entries = entries.as<std::int32_t>();
  const PackedBatch packed{device, params};
  const auto rows = static_cast<std::size_t>(batch.query_tokens() * batch.query_heads());
  const DeviceBytes out{rows * 64 * 2};
  const DeviceBytes lse{rows * 4};
  kernels::AttentionParams captured = packed.params();
  captured.out = out.at(0);
  captured.lse = lse.as<float>();

  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  require_cuda(cudaStreamCreate(&stream));
  require_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  packed.enqueue(captured, {stream});
  require_cuda(cudaStreamEndCapture(stream, &graph));
  require_cuda(cudaGraphInstantiate(&executable, graph, 0));
  int replay = 0;
  for (const std::vector<std::int32_t>& now :
       {std::vector{0, 7, 0, 0}, std::vector{5000, 200, 64, 900}, std::vector{17, 0, 64, 1},
        std::vector{5000, 200, 64, 900}, std::vector{4999, 0, 0, 0}}) {
    if (++replay == 3) {  // from here on every page lies elsewhere
      const auto [pool, table] = reordered(batch);
      require_cuda(
          cudaMemcpy(device.pool_base(), pool.data(), pool.size(), cudaMemcpyHostToDevice));
      entries.write(0, table.data(), table.size() * 4);
    }
    require_cuda(cudaMemcpy(lengths.at(0), now.data(), 16, cudaMemcpyHostToDevice));
    require_cuda(cudaMemset(out.at(0), 0xFF, out.size()));
    require_cuda(cudaMemset(lse.at(0), 0xFF, lse.size()));
    require_cuda(cudaGraphLaunch(executable, stream));
    require_cuda(cudaStreamSynchronize(stream));
    AttentionResult replayed{.out = {}, .lse = lse.read<float>(0, rows)};
    const auto bytes = out.read(0, rows * 64 * 2);
    const Elements elements{ElementType::kBf16};
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
      replayed.out.push_back(elements.load(bytes.data() + i));
    }
    check_result(batch, captured, replayed, now);
  }
  require_cuda(cudaGraphExecDestroy(executable));
  require_cuda(cudaGraphDestroy(graph));
  require_cuda(cudaStreamDestroy(stream));
}

TEST_CASE("many launches behind each other exchange nothing but their own", "[packed]") {
  // Layers of one step: launches overlap, and share plan and exchange.
  const PagedBatch batch{{.group = 4, .page = 32, .lengths = {3000, 40}, .queries = {7, 7}}};
  const DeviceBatch device{batch};
  const PackedBatch packed{device, device.attention()};
  const AttentionResult once = packed.run();
  const auto rows = static_cast<std::size_t>(batch.query_tokens() * batch.query_heads());
  const DeviceBytes outs{rows * 64 * 2 * 40};
  must(kernels::plan_packed_attention(packed.plan_params(), {}));
  for (std::size_t layer = 0; layer < 40; ++layer) {
    kernels::AttentionParams params = packed.params();
    params.out = outs.at(layer * rows * 64 * 2);
    must(kernels::packed_attention(params, packed.options(), {}));
  }
  const Elements elements{ElementType::kBf16};
  for (std::size_t layer = 0; layer < 40; ++layer) {
    const auto bytes = outs.read(layer * rows * 64 * 2, rows * 64 * 2);
    bool same = true;
    for (std::size_t i = 0; i < once.out.size(); ++i) {
      same = same && elements.load(bytes.data() + 2 * i) == once.out[i];
    }
    CHECK(same);
  }
}

TEST_CASE("the device makes the plan that the host makes", "[packed]") {
  std::mt19937 random{7};
  for (int round = 0; round < 60; ++round) {
    const auto rows = static_cast<std::int32_t>(1 + random() % (round % 10 == 0 ? 5000 : 40));
    std::vector<std::int32_t> lengths;
    std::vector<std::int32_t> q_indptr = {0};
    for (std::int32_t i = 0; i < rows; ++i) {
      lengths.push_back(random() % 4 == 0 ? 0 : static_cast<std::int32_t>(random() % 200'000));
      q_indptr.push_back(q_indptr.back() + static_cast<std::int32_t>(random() % 9));
    }
    const bool even = round % 3 == 0;
    if (even) {
      lengths.assign(lengths.size(), 4096);
    }
    const DeviceBytes device_lengths{lengths};
    const DeviceBytes device_indptr{q_indptr};
    const auto sizes = must(kernels::packed_sizes({.rows = rows,
                                                   .max_query_tokens = 8,
                                                   .query_heads = 16,
                                                   .kv_heads = 4,
                                                   .multiprocessors = multiprocessors()}));
    const auto bytes = static_cast<std::size_t>(sizes.plan.count());
    const DeviceBytes on_device{bytes};
    std::vector<std::byte> on_host(bytes + 64, std::byte{0xFF});
    auto* const aligned = reinterpret_cast<std::byte*>(
        (reinterpret_cast<std::uintptr_t>(on_host.data()) + 63) / 64 * 64);
    kernels::PackedPlanParams params{.lengths = device_lengths.as<std::int32_t>(),
                                     .q_indptr = even ? nullptr : device_indptr.as<std::int32_t>(),
                                     .plan = on_device.at(0),
                                     .plan_bytes = sizes.plan.count(),
                                     .rows = rows,
                                     .max_query_tokens = 8,
                                     .query_heads = 16,
                                     .kv_heads = 4,
                                     .head_dim = round % 2 == 0 ? 64 : 128,
                                     .window_left = round % 5 == 0 ? 1000 : -1,
                                     .blocks = sizes.blocks,
                                     .split_tokens = round % 4 == 3 ? 2048 : 0};
    must(kernels::plan_packed_attention(params, {}));
    const auto device_plan = on_device.read(0, bytes);
    params.lengths = lengths.data();
    params.q_indptr = even ? nullptr : q_indptr.data();
    params.plan = aligned;
    must(kernels::plan_packed_attention_on_host(params));
    INFO("round " << round << ", rows " << rows);
    check_bytes(device_plan, {aligned, aligned + bytes});
  }
}

}  // namespace
}  // namespace kvpool::test
