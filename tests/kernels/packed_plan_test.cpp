// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Plans of packed attention, made on the host: whatever the lengths, each key of each item is in
// exactly one block's part, and blocks and merges agree on where partial results are.
#include <kvpool/kernels/packed_attention.hpp>

#include "smxx/packed_attention/schedule.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::test {
namespace {

namespace packed = kernels::packed;

/// A batch, and the plan of it.
struct Planned {
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> q_indptr;
  kernels::PackedPlanParams params;
  std::vector<std::uint64_t> memory;
  packed::PlanLayout plan{};

  Planned(std::vector<std::int32_t> row_lengths, const std::vector<std::int32_t>& queries,
          std::int32_t head_dim, std::int32_t window_left, std::int32_t split_tokens,
          std::int32_t blocks)
      : lengths{std::move(row_lengths)}, q_indptr{0} {
    for (const std::int32_t count : queries) {
      q_indptr.push_back(q_indptr.back() + count);
    }
    const std::size_t bytes = 48 + 64 * static_cast<std::size_t>(blocks) + 32 * lengths.size();
    memory.resize(bytes / 8 + 2);
    auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    params = {.lengths = lengths.data(),
              .q_indptr = q_indptr.data(),
              .plan = reinterpret_cast<void*>((address + 15) / 16 * 16),
              .plan_bytes = static_cast<std::int64_t>(bytes),
              .rows = static_cast<std::int32_t>(lengths.size()),
              .max_query_tokens = 8,
              .query_heads = 8,
              .kv_heads = 2,
              .head_dim = head_dim,
              .window_left = window_left,
              .blocks = blocks,
              .split_tokens = split_tokens};
    const auto made = kernels::plan_packed_attention_on_host(params);
    REQUIRE(made.has_value());
    plan = packed::layout_of(params.plan, blocks);
  }
};

/// Keys that a row's queries see, in steps of 16.
std::pair<std::int64_t, std::int64_t> seen_steps(std::int64_t length, std::int64_t queries,
                                                 std::int64_t window_left) {
  if (length == 0 || queries == 0) {
    return {0, 0};
  }
  const std::int64_t first =
      window_left < 0 ? 0 : std::max<std::int64_t>(0, length - queries - window_left);
  return {first / 16, (length + 15) / 16};
}

/// Walks through what each block takes, as the kernel does, and checks it.
void check_plan(const Planned& planned) {
  const kernels::PackedPlanParams& params = planned.params;
  const packed::PlanLayout& plan = planned.plan;
  const std::int32_t start = params.head_dim == 64 ? 24 : 12;
  const std::int32_t split_steps = params.split_tokens / 16;
  // 8 queries of 4 heads are 32 rows, one tile: two items a row.
  constexpr std::int32_t kItems = 2;
  std::map<std::pair<std::int32_t, std::int32_t>,
           std::vector<std::pair<std::int64_t, std::int64_t>>>
      taken;
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int64_t>> slots;
  std::set<std::int64_t> used;
  std::map<std::pair<std::int32_t, std::int32_t>, int> finished;
  for (std::int32_t block = 0; block < params.blocks; ++block) {
    packed::PlanBlock at = plan.blocks[block];
    const std::int32_t whole_cost = at.cost;
    while (at.cost > 0) {
      REQUIRE(at.row < params.rows);
      REQUIRE(at.item < kItems);
      const packed::PlanRow& row = plan.rows[at.row];
      const std::int32_t steps = packed::steps_of(row.length, row.first_step);
      const auto cost = static_cast<std::int32_t>(packed::item_cost(steps, split_steps, start));
      REQUIRE(at.offset < cost);
      const std::int32_t part = split_steps > 0 ? 1 : std::min(cost - at.offset, at.cost);
      std::int64_t begin = std::max(at.offset - start, 0);
      std::int64_t end = std::max(at.offset + part - start, 0);
      if (split_steps > 0) {
        begin = std::int64_t{at.offset} * split_steps;
        end = std::min<std::int64_t>(begin + split_steps, steps);
      }
      const std::pair item{at.row, at.item};
      if (steps == 0) {
        ++finished[item];
      } else if (begin < end) {
        taken[item].emplace_back(begin + row.first_step, end + row.first_step);
        const bool whole = begin == 0 && end == steps;
        if (!whole) {
          const std::int32_t consumed = whole_cost - at.cost;
          const std::int64_t slot =
              split_steps > 0 ? at.begin + consumed : 2 * std::int64_t{block} + (consumed > 0);
          CHECK(used.insert(slot).second);
          slots[item].push_back(slot);
          if (split_steps == 0) {
            const packed::PlanPart& in_plan =
                consumed == 0 ? plan.blocks[block].lead : plan.blocks[block].tail;
            CHECK(in_plan.count > 1);
            CHECK(in_plan.first_slot / 2 + static_cast<std::int32_t>(slots[item].size()) - 1 ==
                  block);
          }
        }
      }
      at.cost -= part;
      at.offset += part;
      if (at.offset >= cost) {
        at.offset = 0;
        if (++at.item == kItems) {
          at.item = 0;
          ++at.row;
        }
      }
    }
  }
  for (std::int32_t row = 0; row < params.rows; ++row) {
    const auto index = static_cast<std::size_t>(row);
    const auto [first, end] =
        seen_steps(planned.lengths[index], planned.q_indptr[index + 1] - planned.q_indptr[index],
                   params.window_left);
    for (std::int32_t item = 0; item < kItems; ++item) {
      INFO("row " << row << " of " << planned.lengths[index] << " tokens");
      if (first == end) {
        CHECK(finished[{row, item}] == 1);
        continue;
      }
      std::int64_t next = first;
      for (const auto& [begin_of_part, end_of_part] : taken[{row, item}]) {
        CHECK(begin_of_part == next);
        next = end_of_part;
      }
      CHECK(next == end);
      // Where the merge looks is where the blocks have written.
      const packed::PlanRow& record = plan.rows[row];
      const std::int32_t steps = packed::steps_of(record.length, record.first_step);
      const packed::Segments segments = packed::segments_of(
          record.base + item * packed::item_cost(steps, split_steps, start), steps, *plan.header);
      const std::vector<std::int64_t>& written = slots[{row, item}];
      if (taken[{row, item}].size() == 1) {
        CHECK(segments.count == 1);
        CHECK(written.empty());
      } else {
        REQUIRE(segments.count == static_cast<std::int32_t>(written.size()));
        for (std::int32_t i = 0; i < segments.count; ++i) {
          CHECK(segments.slot(i) == written[static_cast<std::size_t>(i)]);
        }
      }
    }
  }
}

TEST_CASE("a plan divides every batch without a gap or an overlap") {
  std::mt19937 random{11};
  for (int round = 0; round < 400; ++round) {
    const int rows = 1 + static_cast<int>(random() % 40);
    std::vector<std::int32_t> lengths;
    std::vector<std::int32_t> queries;
    const std::uint32_t longest = std::vector<std::uint32_t>{20, 400, 5000, 200'000}[random() % 4];
    for (int row = 0; row < rows; ++row) {
      lengths.push_back(random() % 5 == 0 ? 0 : static_cast<std::int32_t>(random() % longest));
      queries.push_back(static_cast<std::int32_t>(random() % 9));
    }
    if (round % 4 == 0) {
      std::ranges::fill(lengths, static_cast<std::int32_t>(longest));
      std::ranges::fill(queries, 7);
    }
    const std::int32_t split = round % 3 == 0 ? 16 << random() % 8 : 0;
    const std::int32_t window = random() % 3 == 0 ? static_cast<std::int32_t>(random() % 500) : -1;
    const std::int32_t blocks = std::vector<std::int32_t>{1, 2, 7, 64, 132, 264}[random() % 6];
    INFO("round " << round << ": " << rows << " rows, split " << split << ", window " << window
                  << ", blocks " << blocks);
    check_plan(Planned{lengths, queries, round % 2 == 0 ? 64 : 128, window, split, blocks});
  }
}

TEST_CASE("equal rows divide among blocks without cutting items more often than needed") {
  // 16 rows of two items over 132 blocks: 128 of them, four for each item.
  const Planned planned{
      std::vector<std::int32_t>(16, 32'768), std::vector<std::int32_t>(16, 7), 64, -1, 0, 132};
  CHECK(planned.plan.header->blocks == 128);
  for (std::int32_t block = 0; block < 128; ++block) {
    CHECK(planned.plan.blocks[block].offset % 518 == 0);  // (2048 + 24) / 4
    CHECK(planned.plan.blocks[block].lead.count == 4);
    CHECK(planned.plan.blocks[block].tail.count == 0);
  }
}

TEST_CASE("sizes of packed attention cover smaller batches, and depend on no length") {
  const kernels::PackedShape largest{.rows = 256,
                                     .max_query_tokens = 8,
                                     .query_heads = 32,
                                     .kv_heads = 8,
                                     .head_dim = 128,
                                     .multiprocessors = 132};
  const auto most = kernels::packed_sizes(largest);
  REQUIRE(most.has_value());
  CHECK(most->workspace.count() == 0);
  // Two partial results of 32 rows, 128 outputs and 4 log-sum-exps, for two blocks each of 132.
  CHECK(most->counters == 2 * 264 * 32 * 132);
  CHECK(most->plan.count() == 48 + 264 * 64 + 256 * 32);
  for (const std::int64_t rows : {0, 1, 17, 255}) {
    for (const std::int64_t queries : {1, 4, 8}) {
      kernels::PackedShape shape = largest;
      shape.rows = rows;
      shape.max_query_tokens = queries;
      const auto sizes = kernels::packed_sizes(shape);
      REQUIRE(sizes.has_value());
      CHECK(sizes->counters <= most->counters);
      CHECK(sizes->plan <= most->plan);
    }
  }
  // 80 query rows are two tiles of 48, 64 are one of 64.
  const auto counters_of = [](std::int64_t queries) {
    const auto sizes = kernels::packed_sizes({.rows = 1,
                                              .max_query_tokens = queries,
                                              .query_heads = 8,
                                              .kv_heads = 1,
                                              .multiprocessors = 132});
    return sizes.has_value() ? sizes->counters : -1;
  };
  for (std::int64_t queries = 2; queries <= 16; ++queries) {
    CHECK(counters_of(queries) >= counters_of(queries - 1));
  }
  kernels::PackedShape split = largest;
  split.split_tokens = 2048;
  split.max_length = 131'072;
  const auto fixed = kernels::packed_sizes(split);
  REQUIRE(fixed.has_value());
  CHECK(fixed->counters == 0);
  CHECK(fixed->workspace.count() == std::int64_t{256} * 8 * 66 * 32 * 132 * 4);
}

TEST_CASE("a plan's parameters are those of the attention that it is for") {
  const std::int32_t lengths = 100;
  const std::int32_t indptr = 0;
  std::uint64_t plan = 0;
  kernels::AttentionParams params;
  params.q_indptr = &indptr;
  params.table.lengths = &lengths;
  params.table.rows = 5;
  params.k.dim = 128;
  params.v.dim = 64;
  params.split = {.plan = &plan, .plan_bytes = 48, .counter_count = 7, .blocks = 9};
  params.max_query_tokens = 8;
  params.query_heads = 12;
  params.kv_heads = 4;
  params.window_left = 31;
  const auto made =
      kernels::packed_plan_params(params, {.split_tokens = 256, .max_length = 3, .instance = 2});
  CHECK(made.lengths == &lengths);
  CHECK(made.q_indptr == &indptr);
  CHECK(made.plan == &plan);
  CHECK(made.plan_bytes == 48);
  CHECK(made.rows == 5);
  CHECK(made.max_query_tokens == 8);
  CHECK(made.query_heads == 12);
  CHECK(made.kv_heads == 4);
  CHECK(made.head_dim == 128);
  CHECK(made.window_left == 31);
  CHECK(made.blocks == 9);
  CHECK(made.split_tokens == 256);
  CHECK(made.instance == 2);
}

TEST_CASE("what packed attention cannot run is refused by name") {
  const auto key_of = [](kernels::PackedShape shape) {
    const auto sizes = kernels::packed_sizes(shape);
    return sizes.has_value() ? std::string{"none"} : sizes.error().key;
  };
  const kernels::PackedShape good{.rows = 4, .query_heads = 8, .kv_heads = 2, .multiprocessors = 1};
  CHECK(key_of(good) == "none");
  kernels::PackedShape shape = good;
  shape.head_dim = 96;
  CHECK(key_of(shape) == "head_dim");
  shape = good;
  shape.query_heads = 9;
  CHECK(key_of(shape) == "query_heads");
  shape = good;
  shape.split_tokens = 100;
  CHECK(key_of(shape) == "split_tokens");
  shape = good;
  shape.multiprocessors = 0;
  CHECK(key_of(shape) == "multiprocessors");
  shape = good;
  shape.rows = -1;
  CHECK(key_of(shape) == "rows");
  // Instance 0 is one of head dim 64 with one block a multiprocessor, instance 1 has two.
  shape = good;
  shape.instance = 1;
  CHECK(key_of(shape) == "none");
  CHECK(kernels::packed_sizes(shape).value().blocks == 2);
  shape.split_tokens = 64;
  CHECK(key_of(shape) == "instance");
  shape.instance = 0;
  CHECK(key_of(shape) == "none");
  shape.head_dim = 128;
  CHECK(key_of(shape) == "instance");
  shape = good;
  shape.instance = 48;
  CHECK(key_of(shape) == "instance");
}

/// Parameters that packed attention takes; nothing is read from the addresses.
kernels::AttentionParams good_params() {
  const auto address = [](std::uintptr_t at) {
    return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr): never followed
  };
  kernels::AttentionParams params;
  params.q = address(0x1000);
  params.out = address(0x2000);
  params.table.entries = static_cast<const std::int32_t*>(address(0x3000));
  params.table.lengths = static_cast<const std::int32_t*>(address(0x4000));
  params.table.row_stride_entries = 8;
  params.table.rows = 2;
  params.table.tokens_per_block = 48;
  params.k = {.base = address(0x10000),
              .entry_stride_bytes = 48 * 2 * 256,
              .head_stride_bytes = 48 * 128,
              .slot_stride_bytes = 128,
              .dim = 64};
  params.v = params.k;
  params.q_token_stride = params.out_token_stride = 8 * 64;
  params.q_head_stride = params.out_head_stride = 64;
  params.tokens = 2;
  params.max_query_tokens = 1;
  params.query_heads = 8;
  params.kv_heads = 2;
  params.split = {.plan = address(0x5000),
                  .plan_bytes = 48 + 4 * 64 + 2 * 32,
                  .counters = static_cast<std::int32_t*>(address(0x6000)),
                  .counter_count = 2 * 4 * 16 * 66,
                  .blocks = 4};
  return params;
}

TEST_CASE("a launch of packed attention names the field that is wrong") {
  const auto key_of = [](const kernels::AttentionParams& params,
                         const kernels::PackedOptions& options) {
    const auto checked = kernels::check_packed(params, options);
    return checked.has_value() ? std::string{"none"} : checked.error().key;
  };
  CHECK(key_of(good_params(), {}) == "none");
  kernels::AttentionParams params = good_params();
  params.table.tokens_per_block = 24;
  CHECK(key_of(params, {}) == "table.tokens_per_block");
  params = good_params();
  params.k.dim = params.v.dim = 32;
  CHECK(key_of(params, {}) == "k.dim");
  params = good_params();
  params.split.counter_count -= 1;
  CHECK(key_of(params, {}) == "split.counter_count");
  params = good_params();
  params.split.plan_bytes -= 1;
  CHECK(key_of(params, {}) == "split.plan_bytes");
  params = good_params();
  params.split.plan = nullptr;
  CHECK(key_of(params, {}) == "split.plan");
  params = good_params();
  params.split.blocks = 0;
  CHECK(key_of(params, {}) == "split.blocks");
  params = good_params();
  CHECK(key_of(params, {.instance = 0}) == "none");
  params.k.type = params.v.type = params.q_type = params.out_type = kernels::ElementType::kFp16;
  CHECK(key_of(params, {}) == "none");
  CHECK(key_of(params, {.instance = 0}) == "instance");
  params = good_params();
  CHECK(key_of(params, {.split_tokens = 100}) == "split_tokens");
  // Two rows of two items, 1000 / 64 + 2 pieces each, of 16 rows of 64 outputs and 2 sums.
  const kernels::PackedOptions fixed{.split_tokens = 64, .max_length = 1000};
  CHECK(key_of(params, fixed) == "workspace_bytes");
  params.workspace = params.out;
  params.workspace_bytes = 2 * 2 * 17 * 16 * 66 * 4;
  CHECK(key_of(params, fixed) == "none");
  params.workspace_bytes -= 1;
  CHECK(key_of(params, fixed) != "none");
}

}  // namespace
}  // namespace kvpool::test
