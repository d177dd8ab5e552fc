// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_checks.hpp"
#include "kernels/device_batch.hpp"
#include "kernels/paged_batch.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace kvpool::test {
namespace {

using kernels::ElementType;

/// Empty, one token, around one page, and several pages.
std::vector<std::int32_t> mixed_lengths(std::int32_t page) {
  return {0, 1, page - 1, page, page + 1, 3 * page + 5, 0, 2 * page};
}
/// With the lengths above: rows without tokens and without queries, and more queries than tokens.
const std::vector<std::int32_t> kMixedQueries = {2, 3, 1, 1, 4, 7, 0, 16};

TEST_CASE("attention agrees with a dense one in every layout, page size and type", "[attention]") {
  const auto type = GENERATE(ElementType::kFp32, ElementType::kBf16, ElementType::kFp16);
  const auto page = GENERATE(16, 32, 64, 128);
  const auto rows = GENERATE(Rows::kTokensHeads, Rows::kHeadsTokens, Rows::kInterleaved);
  const auto layer_major = GENERATE(false, true);
  const PagedBatch batch{{.type = type,
                          .rows = rows,
                          .layer_major = layer_major,
                          .page = page,
                          .lengths = mixed_lengths(page),
                          .queries = kMixedQueries}};
  const DeviceBatch device{batch};
  check_attention(batch, device, device.attention());
}

TEST_CASE("attention takes any row lengths and numbers of heads", "[attention]") {
  struct Shape {
    std::int32_t k_dim, v_dim, kv_heads, group;
    Rows rows;
  };
  const auto shape = GENERATE(values<Shape>({
      {8, 8, 1, 1, Rows::kTokensHeads},
      {64, 64, 4, 1, Rows::kHeadsTokens},
      {72, 40, 3, 2, Rows::kInterleaved},
      {128, 128, 2, 7, Rows::kTokensHeads},
      {128, 128, 1, 16, Rows::kHeadsTokens},
      {192, 128, 2, 4, Rows::kTokensHeads},
      {256, 256, 1, 8, Rows::kHeadsTokens},
      {16, 576, 1, 3, Rows::kTokensHeads},
      {576, 576, 1, 2, Rows::kInterleaved},
      {576, 512, 1, 16, Rows::kLatent},
  }));
  const auto type = GENERATE(ElementType::kFp32, ElementType::kBf16, ElementType::kFp16);
  INFO("dims " << shape.k_dim << " + " << shape.v_dim);
  const PagedBatch batch{{.type = type,
                          .rows = shape.rows,
                          .kv_heads = shape.kv_heads,
                          .group = shape.group,
                          .k_dim = shape.k_dim,
                          .v_dim = shape.v_dim,
                          .page = 64,
                          .lengths = {65, 0, 300, 1, 63},
                          .queries = {1, 1, 8, 1, 3}}};
  const DeviceBatch device{batch};
  check_attention(batch, device, device.attention());
}

TEST_CASE("attention applies masks, cap, sinks and scales", "[attention]") {
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
                                           {1, 1000, 1000}}));
  const auto softcap = GENERATE(0.0F, 1.5F);
  const auto with_sinks = GENERATE(false, true);
  const auto base = GENERATE(kernels::LogBase::kTwo, kernels::LogBase::kNatural);
  INFO("causal " << mask.causal << ", left " << mask.left << ", right " << mask.right
                 << ", softcap " << softcap << ", sinks " << with_sinks);
  const PagedBatch batch{{.page = 16, .lengths = mixed_lengths(16), .queries = kMixedQueries}};
  const DeviceBatch device{batch};
  kernels::AttentionParams params = device.attention();
  params.causal = mask.causal;
  params.window_left = mask.left;
  params.window_right = mask.right;
  params.softcap = softcap;
  params.sinks = with_sinks ? device.sinks() : nullptr;
  params.lse_base = base;
  params.k_scale = 0.75F;
  params.v_scale = 1.25F;
  check_attention(batch, device, params);
}

TEST_CASE("rows of equally many queries need no q_indptr", "[attention][sanitize]") {
  const PagedBatch batch{{.page = 32, .lengths = {40, 0, 5}, .queries = {4, 4, 4}}};
  const DeviceBatch device{batch};
  kernels::AttentionParams params = device.attention();
  params.q_indptr = nullptr;
  check_attention(batch, device, params);
}

TEST_CASE("pools of several page sizes are read together", "[attention][sanitize]") {
  // The target's pages span three entries, the drafter's one.
  const auto pages = GENERATE(values<std::pair<std::int32_t, std::int32_t>>({{64, 64}, {128, 32}}));
  const PagedBatch target{{.layers = 3,
                           .layer = 2,
                           .kv_heads = 2,
                           .group = 4,
                           .k_dim = 128,
                           .v_dim = 128,
                           .page = pages.first,
                           .units = 3,
                           .lengths = {130, 0, 64, 1},
                           .queries = {8, 8, 8, 8}}};
  const PagedBatch draft{{.rows = Rows::kHeadsTokens,
                          .layers = 1,
                          .layer = 0,
                          .kv_heads = 4,
                          .group = 1,
                          .page = pages.second,
                          .lengths = {130, 0, 64, 1},
                          .queries = {7, 7, 7, 7},
                          .seed = 2}};
  const DeviceBatch target_device{target};
  const DeviceBatch draft_device{draft};
  kernels::AttentionParams bidirectional = draft_device.attention();
  bidirectional.causal = 0;
  check_attention(target, target_device, target_device.attention());
  check_attention(draft, draft_device, bidirectional);
}

TEST_CASE("only slots that hold tokens are read", "[attention][append][sanitize]") {
  // The pool is not initialised: initcheck finds what values alone may not show.
  const PagedBatch batch{
      {.rows = Rows::kHeadsTokens, .page = 32, .lengths = {33, 0, 5, 64}, .queries = {3, 1, 1, 2}}};
  DeviceBatch device{batch, Before::kNothing};
  device.append(0, batch.tokens());
  kernels::AttentionParams params = device.attention();
  check_attention(batch, device, params);
  params.window_left = 3;
  check_attention(batch, device, params);
}

TEST_CASE("large scores neither overflow nor lose the sum", "[attention]") {
  const auto scale = GENERATE(-40.0F, 0.0F, 40.0F);
  const PagedBatch batch{
      {.type = ElementType::kFp32, .k_dim = 8, .v_dim = 8, .lengths = {200, 3}, .queries = {4, 2}}};
  const DeviceBatch device{batch};
  kernels::AttentionParams params = device.attention();
  params.scale = scale;
  params.sinks = device.sinks();
  check_attention(batch, device, params);
}

TEST_CASE("captured launches serve other lengths when they are replayed", "[attention][sanitize]") {
  const PagedBatch batch{{.page = 16, .lengths = {50, 20}, .queries = {1, 1}}};
  const DeviceBatch device{batch};
  const DeviceBytes lengths{std::vector<std::int32_t>{0, 0}};
  const DeviceBytes new_lengths{std::vector<std::int32_t>{0, 0}};
  const std::size_t values = std::size_t{2} * 4 * 64;  // rows, heads, elements
  const DeviceBytes out{values * 2};
  kernels::AttentionParams params = device.attention();
  params.table.lengths = lengths.as<std::int32_t>();
  params.out = out.at(0);

  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  require_cuda(cudaStreamCreate(&stream));
  require_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  must(kernels::apply_table_deltas({.lengths = lengths.as<std::int32_t>(),
                                    .new_lengths = new_lengths.as<std::int32_t>(),
                                    .rows = 2},
                                   {stream}));
  must(kernels::attention(params, {stream}));
  require_cuda(cudaStreamEndCapture(stream, &graph));
  require_cuda(cudaGraphInstantiate(&executable, graph, 0));
  for (const std::vector<std::int32_t>& now :
       {std::vector{0, 7}, std::vector{50, 20}, std::vector{17, 0}}) {
    require_cuda(cudaMemcpy(new_lengths.at(0), now.data(), 8, cudaMemcpyHostToDevice));
    require_cuda(cudaGraphLaunch(executable, stream));
    require_cuda(cudaStreamSynchronize(stream));
    const auto replayed = out.read(0, values * 2);
    const DeviceBytes direct{now};
    kernels::AttentionParams again = params;
    again.table.lengths = direct.as<std::int32_t>();
    check_attention(batch, device, again, now);
    must(kernels::attention(again, {}));
    check_bytes(out.read(0, values * 2), replayed);
  }
  require_cuda(cudaGraphExecDestroy(executable));
  require_cuda(cudaGraphDestroy(graph));
  require_cuda(cudaStreamDestroy(stream));
}

TEST_CASE("more rows and heads than thread blocks are computed", "[attention]") {
  const PagedBatch batch{{.kv_heads = 4,
                          .group = 24,
                          .k_dim = 8,
                          .v_dim = 8,
                          .page = 16,
                          .lengths = {700, 90},
                          .queries = {700, 30}}};
  const DeviceBatch device{batch};
  kernels::AttentionParams params = device.attention();
  params.window_left = 20;
  check_attention(batch, device, params);
}

TEST_CASE("outputs go where their strides say", "[attention][sanitize]") {
  const PagedBatch batch{{.page = 16, .lengths = {40, 3}, .queries = {3, 2}}};
  const DeviceBatch device{batch};
  const AttentionResult plain = device.run(device.attention());
  kernels::AttentionParams params = device.attention();
  const std::int64_t tokens = params.tokens;
  params.out_token_stride = params.v.dim;
  params.out_head_stride = tokens * params.v.dim;
  params.lse_token_stride = 1;
  params.lse_head_stride = tokens;
  const AttentionResult heads_first = device.run(params);
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::int64_t head = 0; head < params.query_heads; ++head) {
      const auto a = static_cast<std::size_t>(token * params.query_heads + head);
      const auto b = static_cast<std::size_t>(head * tokens + token);
      CHECK(plain.lse[a] == heads_first.lse[b]);
      const auto dim = static_cast<std::size_t>(params.v.dim);
      for (std::size_t i = 0; i < dim; ++i) {
        CHECK(plain.out[a * dim + i] == heads_first.out[b * dim + i]);
      }
    }
  }
}

TEST_CASE("a result does not depend on the rest of the batch, and repeats", "[attention]") {
  const PagedBatch batch{{.page = 16, .lengths = {100, 33, 7}, .queries = {2, 1, 1}}};
  const DeviceBatch device{batch};
  const AttentionResult first = device.run(device.attention());
  const AttentionResult second = device.run(device.attention());
  CHECK(first.out == second.out);
  CHECK(first.lse == second.lse);
  kernels::AttentionParams alone = device.attention();
  alone.table.rows = 1;
  alone.tokens = 2;
  const AttentionResult one = device.run(alone);
  const auto values = static_cast<std::size_t>(2LL * alone.query_heads * alone.v.dim);
  CHECK(
      std::vector<float>(one.out.begin(), one.out.begin() + static_cast<std::ptrdiff_t>(values)) ==
      std::vector<float>(first.out.begin(),
                         first.out.begin() + static_cast<std::ptrdiff_t>(values)));
}

TEST_CASE("what the kernels do not take is refused before a launch", "[attention]") {
  const PagedBatch batch{{.page = 16, .lengths = {4}, .queries = {1}}};
  const DeviceBatch device{batch};
  const DeviceBytes out{4096};
  kernels::AttentionParams params = device.attention();
  params.out = out.at(0);
  params.k.type = ElementType::kFp8E4m3;
  const auto refused = kernels::attention(params, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kUnsupported);
  params = device.attention();
  const auto without_output = kernels::attention(params, {});
  REQUIRE_FALSE(without_output.has_value());
  CHECK(without_output.error().code == ErrorCode::kInvalidArgument);
  require_cuda(cudaDeviceSynchronize());
}

}  // namespace
}  // namespace kvpool::test
