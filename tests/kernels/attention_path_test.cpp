// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Which path a layer takes, and that every path computes the same; the launches are counted by hand
// here, so that no path changes in silence.
#include <kvpool/kernels/attention_path.hpp>

#include <kvpool/io/model_config_io.hpp>
#include <kvpool/kernels/reference.hpp>

#include "kernels/element_bytes.hpp"
#include "kernels/paged_batch.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace kvpool::test {
namespace {

using kernels::AttentionParams;
using kernels::AttentionPath;
using kernels::KeyMask;
using kernels::PackedOptions;
using kernels::PathCalls;
using kernels::PathPolicy;
using kernels::PathStep;

constexpr KeyMask kBlock{.causal = 0};

AttentionPath classic(const KeyMask& mask, std::int64_t batch, std::int64_t limit) {
  const auto path = kernels::choose_path(PathPolicy::kClassic, mask, batch, limit);
  REQUIRE(path.has_value());
  return *path;
}

TEST_CASE("the gates of the classic forms", "[path]") {
  struct Expected {
    std::string architecture;
    std::int64_t kv_heads;
    std::int32_t limit;
    bool is_measured;
  };
  const auto expected = GENERATE(values<Expected>({{"sm_100", 1, 32, true},
                                                   {"sm_100", 128, 32, true},
                                                   {"sm_107", 8, 32, true},
                                                   {"sm_103", 8, 32, false},
                                                   {"sm_90", 1, 4, false},
                                                   {"sm_90", 2, 4, false},
                                                   {"sm_90", 3, 1, false},
                                                   {"sm_90", 16, 1, false}}));
  const auto gate = kernels::find_path_gate(expected.architecture, expected.kv_heads);
  REQUIRE(gate.has_value());
  CHECK(gate->limit == expected.limit);
  CHECK(gate->is_measured == expected.is_measured);
  CHECK_FALSE(gate->evidence.empty());
  CHECK_FALSE(kernels::find_path_gate("sm_80", 2).has_value());
  CHECK_FALSE(kernels::find_path_gate("sm_90", 17).has_value());
}

TEST_CASE("a block without a mask runs as decode rows up to the gate", "[path]") {
  for (const kernels::PathGate& gate : kernels::path_gates()) {
    INFO(gate.architecture << ", up to " << gate.max_kv_heads << " KV heads");
    const std::int64_t limit = gate.limit;
    CHECK(classic(kBlock, 1, limit) == AttentionPath::kDecodeRows);
    CHECK(classic(kBlock, 2, limit) ==
          (limit >= 2 ? AttentionPath::kDecodeRows : AttentionPath::kContext));
    CHECK(classic(kBlock, limit, limit) == AttentionPath::kDecodeRows);
    CHECK(classic(kBlock, limit + 1, limit) == AttentionPath::kContext);
  }
  CHECK(classic(kBlock, 2, 1) == AttentionPath::kContext);
  CHECK(classic(kBlock, 1, 0) == AttentionPath::kContext);
}

TEST_CASE("what no classic form runs is packed, and so is everything by default", "[path]") {
  for (const std::int64_t batch : {1, 2, 32, 33, 1000}) {
    CHECK(classic({.causal = 1}, batch, 32) == AttentionPath::kPacked);
    CHECK(classic({.causal = 1, .window_left = 100}, batch, 32) == AttentionPath::kPacked);
    CHECK(classic({.causal = 0, .window_left = 0}, batch, 32) == AttentionPath::kPacked);
    CHECK(classic({.causal = 0, .window_right = 3}, batch, 32) == AttentionPath::kPacked);
    CHECK(kernels::choose_path(PathPolicy::kPacked, kBlock, batch, 32).value() ==
          AttentionPath::kPacked);
  }
  const auto key_of = [](std::int64_t batch, std::int64_t limit) {
    return kernels::choose_path(PathPolicy::kClassic, kBlock, batch, limit).error().key;
  };
  CHECK(key_of(-1, 32) == "batch");
  CHECK(key_of(1, -1) == "limit");
}

TEST_CASE("paths size, plan and launch what they run", "[path]") {
  const kernels::PackedShape shape{.rows = 16,
                                   .max_query_tokens = 7,
                                   .query_heads = 8,
                                   .kv_heads = 2,
                                   .head_dim = 64,
                                   .multiprocessors = 132};
  const PathStep rows{.path = AttentionPath::kDecodeRows};
  CHECK(on_path(rows, shape).rows == 112);
  CHECK(on_path(rows, shape).max_query_tokens == 1);
  // Whole steps of 16 keys, one piece: no workspace, and no partial results to exchange.
  const PathStep context{.path = AttentionPath::kContext, .max_length = 1001};
  CHECK(on_path(context, shape).split_tokens == 1008);
  CHECK(options_on_path(context).split_tokens == 1008);
  CHECK(options_on_path(context).max_length == 1001);
  const auto sizes = kernels::packed_sizes(on_path(context, shape));
  REQUIRE(sizes.has_value());
  CHECK(sizes->workspace == Bytes{0});
  CHECK(sizes->counters == 0);
  CHECK(options_on_path(rows).split_tokens == 0);
  CHECK(options_on_path(PathStep{}).split_tokens == 0);
  CHECK(on_path(PathStep{}, shape).rows == 16);
}

/// A batch on the host that runs on paths by the reference, which knows neither plans nor splits.
class HostPaths {
 public:
  explicit HostPaths(const PagedBatch& batch)
      : batch_{batch},
        pool_{batch.pool},
        lengths_{batch.shape().lengths},
        q_{Elements{batch.shape().type}.bytes(batch.q)},
        out_(static_cast<std::size_t>(batch.query_tokens() * batch.query_heads() *
                                      batch.shape().v_dim * batch.element())) {
    params_ = batch.attention(pool_.data());
    params_.q = q_.data();
    params_.out = out_.data();
    params_.q_indptr = batch.q_indptr.data();
    params_.table.entries = batch.entries.data();
    params_.table.lengths = lengths_.data();
    params_.causal = 0;
    expand();
  }

  [[nodiscard]] const AttentionParams& params() const { return params_; }
  [[nodiscard]] PathStep step(AttentionPath path) const {
    return {.path = path, .rows = rows_, .max_length = 4096};
  }
  std::vector<std::byte> run(const PathStep& step, PathCalls& calls) {
    std::ranges::fill(out_, std::byte{0xFF});
    const auto ran = kernels::run_on_path(
        step, params_, calls, [&](const AttentionParams& params, const PackedOptions& options) {
          launched = params;
          asked = options;
          return kernels::reference::attention(params);
        });
    INFO((ran.has_value() ? "" : to_string(ran.error())));
    REQUIRE(ran.has_value());
    return out_;
  }

  AttentionParams launched{};
  PackedOptions asked{};

 private:
  void expand() {
    const auto tokens = static_cast<std::size_t>(batch_.query_tokens());
    row_entries_.assign(tokens * static_cast<std::size_t>(batch_.columns), -7);
    row_lengths_.assign(tokens, -7);
    const kernels::DecodeRowParams expansion{
        .entries = batch_.entries.data(),
        .lengths = lengths_.data(),
        .q_indptr = batch_.q_indptr.data(),
        .row_entries = row_entries_.data(),
        .row_lengths = row_lengths_.data(),
        .row_stride_entries = batch_.columns,
        .rows = params_.table.rows,
        .tokens = params_.tokens,
        .tokens_per_block = batch_.shape().page,
    };
    REQUIRE(kernels::reference::expand_decode_rows(expansion).has_value());
    rows_ = params_.table;
    rows_.entries = row_entries_.data();
    rows_.lengths = row_lengths_.data();
    rows_.rows = params_.tokens;
  }

  const PagedBatch& batch_;
  std::vector<std::byte> pool_;
  std::vector<std::int32_t> lengths_, row_entries_, row_lengths_;
  std::vector<std::byte> q_, out_;
  AttentionParams params_{};
  PageTableView rows_{};
};

PagedBatch drafters_batch() {
  return PagedBatch{
      {.kv_heads = 2, .group = 2, .page = 16, .lengths = {70, 0, 16, 33}, .queries = {7, 1, 3, 0}}};
}

TEST_CASE("every path computes the same, and counts its own launches", "[path]") {
  const PagedBatch batch = drafters_batch();
  HostPaths paths{batch};
  PathCalls calls;
  const auto packed = paths.run(paths.step(AttentionPath::kPacked), calls);
  CHECK(calls == PathCalls{.packed = 1});
  CHECK(paths.launched.max_query_tokens == 7);
  const auto rows = paths.run(paths.step(AttentionPath::kDecodeRows), calls);
  CHECK(calls == PathCalls{.packed = 1, .decode_rows = 1});
  CHECK(paths.launched.max_query_tokens == 1);
  CHECK(paths.launched.table.rows == 11);
  CHECK(paths.asked.split_tokens == 0);
  const auto context = paths.run(paths.step(AttentionPath::kContext), calls);
  CHECK(calls == PathCalls{.packed = 1, .decode_rows = 1, .context = 1});
  CHECK(paths.asked.split_tokens == 4096);
  CHECK(rows == packed);
  CHECK(context == packed);
}

TEST_CASE("the classic forms refuse masks, windows and tables of another batch", "[path]") {
  const PagedBatch batch = drafters_batch();
  const HostPaths paths{batch};
  const auto key_of = [&](const PathStep& step, const AttentionParams& params) {
    PathCalls calls;
    const auto ran = kernels::run_on_path(
        step, params, calls,
        [](const AttentionParams&, const PackedOptions&) { return Result<void>{}; });
    CHECK((calls == PathCalls{}) == !ran.has_value());
    return ran.has_value() ? std::string{"none"} : ran.error().key;
  };
  for (const AttentionPath path : {AttentionPath::kDecodeRows, AttentionPath::kContext}) {
    const PathStep step = paths.step(path);
    CHECK(key_of(step, paths.params()) == "none");
    AttentionParams params = paths.params();
    params.causal = 1;
    CHECK(key_of(step, params) == "path");
    params = paths.params();
    params.window_left = 100;
    CHECK(key_of(step, params) == "path");
    CHECK(key_of(paths.step(AttentionPath::kPacked), params) == "none");
    params = paths.params();
    params.window_right = 0;
    CHECK(key_of(step, params) == "path");
  }
  PathStep step = paths.step(AttentionPath::kDecodeRows);
  step.rows.rows = 10;
  CHECK(key_of(step, paths.params()) == "rows.rows");
  step = paths.step(AttentionPath::kDecodeRows);
  step.rows.tokens_per_block = 32;
  CHECK(key_of(step, paths.params()) == "rows.tokens_per_block");
  step = paths.step(AttentionPath::kContext);
  step.max_length = 0;
  CHECK(key_of(step, paths.params()) == "max_length");
}

TEST_CASE("a launch that fails is not counted", "[path]") {
  const PagedBatch batch = drafters_batch();
  const HostPaths paths{batch};
  PathCalls calls;
  const auto ran = kernels::run_on_path(
      paths.step(AttentionPath::kDecodeRows), paths.params(), calls,
      [](const AttentionParams&, const PackedOptions&) -> Result<void> {
        return Error{.code = ErrorCode::kDevice, .message = "the device is gone"};
      });
  REQUIRE_FALSE(ran.has_value());
  CHECK(ran.error().message == "the device is gone");
  CHECK(calls == PathCalls{});
}

TEST_CASE("a table of decode rows repeats each row, lengths whole", "[path]") {
  const std::vector<std::int32_t> entries = {5, 6, 7, 50, 60, 70, 500, 600, 700};
  const std::vector<std::int32_t> lengths = {9, 0, 4};
  std::vector<std::int32_t> row_entries(18, -1);
  std::vector<std::int32_t> row_lengths(6, -1);
  kernels::DecodeRowParams params{.entries = entries.data(),
                                  .lengths = lengths.data(),
                                  .row_entries = row_entries.data(),
                                  .row_lengths = row_lengths.data(),
                                  .row_stride_entries = 3,
                                  .rows = 3,
                                  .tokens = 6,
                                  .queries = 2,
                                  .tokens_per_block = 4};
  REQUIRE(kernels::reference::expand_decode_rows(params).has_value());
  CHECK(row_lengths == std::vector<std::int32_t>{9, 9, 0, 0, 4, 4});
  CHECK(row_entries == std::vector<std::int32_t>{5, 6, 7, 5, 6, 7, -1, -1, -1, -1, -1, -1, 500, -1,
                                                 -1, 500, -1, -1});
  const auto key_of = [](const kernels::DecodeRowParams& wrong) {
    const auto made = kernels::reference::expand_decode_rows(wrong);
    return made.has_value() ? std::string{"none"} : made.error().key;
  };
  kernels::DecodeRowParams wrong = params;
  wrong.tokens = 7;
  CHECK(key_of(wrong) == "tokens");
  wrong = params;
  wrong.row_entries = nullptr;
  CHECK(key_of(wrong) == "row_entries");
  wrong = params;
  wrong.tokens_per_block = 0;
  CHECK(key_of(wrong) == "tokens_per_block");
  wrong = params;
  wrong.row_stride_entries = 2;
  CHECK(key_of(wrong) == "lengths");
  const std::vector<std::int32_t> q_indptr = {0, 4, 3, 6};
  wrong = params;
  wrong.q_indptr = q_indptr.data();
  CHECK(key_of(wrong) == "q_indptr");
}

/// Masks of a block drafter's layers, as an engine makes them of its config.
std::vector<KeyMask> drafter_masks(const std::string& config) {
  const auto model = io::read_model_config(std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs/" +
                                           config + ".json");
  REQUIRE(model.has_value());
  std::vector<KeyMask> masks;
  for (const ModelLayer& layer : model->layers) {
    REQUIRE(layer.caches.size() == 1);
    const auto& cache = std::get<AttentionCache>(layer.caches.front());
    KeyMask mask{.causal = 0};
    if (cache.span.kind == SpanKind::kSlidingWindow) {
      // The window counts the token itself.
      mask.window_left = static_cast<std::int32_t>(cache.span.extent.count()) - 1;
    }
    masks.push_back(mask);
  }
  return masks;
}

TEST_CASE("a drafter of four sliding layers and a full one mixes paths", "[path]") {
  const std::vector<KeyMask> masks = drafter_masks("dflash-4-sliding-1-full");
  REQUIRE(masks.size() == 5);
  CHECK(masks[0].window_left == 2047);
  CHECK(masks[4].window_left == -1);
  const std::int64_t limit = kernels::find_path_gate("sm_100", 8).value().limit;
  const auto calls_of = [&](PathPolicy policy, std::int64_t batch_size, std::int64_t at_most) {
    const PagedBatch batch = drafters_batch();
    HostPaths paths{batch};
    PathCalls calls;
    for (const KeyMask& mask : masks) {
      const auto path = kernels::choose_path(policy, mask, batch_size, at_most);
      REQUIRE(path.has_value());
      AttentionParams params = paths.params();
      params.window_left = mask.window_left;
      const auto ran =
          kernels::run_on_path(paths.step(*path), params, calls,
                               [](const AttentionParams& layer, const PackedOptions& /*options*/) {
                                 return kernels::reference::attention(layer);
                               });
      REQUIRE(ran.has_value());
    }
    return calls;
  };
  CHECK(calls_of(PathPolicy::kPacked, 1, limit) == PathCalls{.packed = 5});
  CHECK(calls_of(PathPolicy::kClassic, 1, limit) == PathCalls{.packed = 4, .decode_rows = 1});
  CHECK(calls_of(PathPolicy::kClassic, 2, limit) == PathCalls{.packed = 4, .decode_rows = 1});
  CHECK(calls_of(PathPolicy::kClassic, 32, limit) == PathCalls{.packed = 4, .decode_rows = 1});
  CHECK(calls_of(PathPolicy::kClassic, 33, limit) == PathCalls{.packed = 4, .context = 1});
  CHECK(calls_of(PathPolicy::kClassic, 2, 1) == PathCalls{.packed = 4, .context = 1});
}

}  // namespace
}  // namespace kvpool::test
