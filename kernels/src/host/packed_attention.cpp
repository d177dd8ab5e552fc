// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/packed_attention.hpp>

#include <kvpool/core/checked.hpp>
#include <kvpool/kernels/checks.hpp>

#include "host/field_checker.hpp"
#include "host/packed_layout.hpp"
#include "smxx/packed_attention/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace kvpool::kernels {
namespace {

using packed::kStep;
using packed::PlanBlock;
using packed::PlanHeader;
using packed::PlanRow;

constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
/// More of a count than any device or batch has: products of them fit into 64 bits.
constexpr std::int64_t kLargestBlocks = 65'536;
constexpr std::int64_t kLargestTokens = 65'536;

std::int64_t plan_bytes(std::int64_t blocks, std::int64_t rows) {
  return static_cast<std::int64_t>(sizeof(PlanHeader)) +
         blocks * static_cast<std::int64_t>(sizeof(PlanBlock)) +
         rows * static_cast<std::int64_t>(sizeof(PlanRow));
}

/// Words of one partial result of so many row tiles: outputs, and a log-sum-exp for 32 of them.
std::int64_t slot_words(std::int64_t row_tiles, std::int64_t dim) {
  return std::int64_t{16} * row_tiles * (dim + dim / 32);
}

/// Words of the exchange: two partial results for each block.
CheckedInt exchange_words(std::int64_t row_tiles, std::int64_t dim, std::int64_t blocks) {
  return CheckedInt{2 * blocks} * CheckedInt{slot_words(row_tiles, dim)};
}

/// Bytes of the workspace: with a fixed split one partial result for each piece of a sequence.
CheckedInt workspace_bytes(const PackedLayout& layout, std::int64_t rows, std::int64_t split_tokens,
                           std::int64_t max_length) {
  if (split_tokens == 0 || is_one_piece(split_tokens, max_length)) {
    return CheckedInt{0};
  }
  // A window may begin within a step.
  const std::int64_t pieces = max_length / split_tokens + 2;
  return CheckedInt{rows} * CheckedInt{layout.items_per_row} * CheckedInt{pieces} *
         CheckedInt{4 * slot_words(layout.instance->row_tiles, layout.instance->dim)};
}

Error invalid(std::string_view field, std::string message) {
  return {.code = ErrorCode::kInvalidArgument,
          .message = std::move(message),
          .key = std::string{field}};
}

void check_split(FieldChecker& check, std::int64_t split_tokens) {
  check.in("split_tokens", split_tokens, 0, kLargest);
  if (split_tokens % kStep != 0) {
    check.fail(ErrorCode::kInvalidArgument, "split_tokens",
               fmt::format("split_tokens is {}: sequences are cut at multiples of {} keys",
                           split_tokens, kStep));
  }
}

void check_head_dim(FieldChecker& check, std::string_view field, std::int64_t dim) {
  if (!packs(ElementType::kBf16, static_cast<std::int32_t>(dim))) {
    check.fail(ErrorCode::kUnsupported, field,
               fmt::format("{} is {}: packed attention takes 64 and 128", field, dim));
  }
}

/// With a fixed split instances for many items do not run: results would depend on the batch.
void check_instance(FieldChecker& check, std::int64_t place, std::int64_t dim,
                    std::int64_t split_tokens) {
  check.in("instance", place, -1, static_cast<std::int64_t>(kPackedInstances.size()) - 1);
  if (!check.result() || place < 0) {
    return;
  }
  const PackedInstance* const instance = packed_instance_at(place, static_cast<std::int32_t>(dim));
  if (instance == nullptr) {
    check.fail(ErrorCode::kInvalidArgument, "instance",
               fmt::format("instance {} is not for a head dim of {}", place, dim));
  } else if (split_tokens > 0 && (instance->blocks > 1 || instance->least_items == kCandidate)) {
    check.fail(ErrorCode::kUnsupported, "instance",
               fmt::format("instance {} is not compiled for fixed splits", place));
  }
}

}  // namespace

Result<PackedSizes> packed_sizes(const PackedShape& shape) {
  FieldChecker check;
  check.in("rows", shape.rows, 0, kLargest);
  check.in("max_query_tokens", shape.max_query_tokens, 1, kLargestTokens);
  check.in("kv_heads", shape.kv_heads, 1, kLargestTokens);
  check.in("query_heads", shape.query_heads, 1, kLargestTokens);
  check.in("multiprocessors", shape.multiprocessors, 1, kLargestBlocks / 4);
  check.in("max_length", shape.max_length, 0, kLargest);
  check_head_dim(check, "head_dim", shape.head_dim);
  check_split(check, shape.split_tokens);
  check_instance(check, shape.instance, shape.head_dim, shape.split_tokens);
  if (auto checked = check.result(); !checked) {
    return std::move(checked).error();
  }
  if (shape.query_heads % shape.kv_heads != 0) {
    return invalid("query_heads", fmt::format("{} query heads do not divide among {} KV heads",
                                              shape.query_heads, shape.kv_heads));
  }
  const auto dim = static_cast<std::int32_t>(shape.head_dim);
  const PackedLayout layout =
      packed_layout(ElementType::kBf16, dim, shape.rows, shape.max_query_tokens, shape.query_heads,
                    shape.kv_heads, shape.split_tokens, shape.instance);
  // Memory for the blocks of whatever instance a smaller batch runs with, and for its tiles: 65
  // rows are two tiles of 48, but 64 are one.
  const std::int64_t query_rows = shape.max_query_tokens * layout.group;
  const std::int64_t most_tiles = std::max<std::int64_t>(
      layout.instance->row_tiles, std::min<std::int64_t>(kMostRowTiles, (query_rows + 15) / 16));
  const std::int64_t most_blocks = 2 * shape.multiprocessors;
  const CheckedInt counters =
      shape.split_tokens == 0 ? exchange_words(most_tiles, dim, most_blocks) : CheckedInt{0};
  const CheckedInt workspace =
      workspace_bytes(layout, shape.rows, shape.split_tokens, shape.max_length);
  const auto words = counters.to_int64();
  const auto bytes = workspace.to_int64();
  if (!words.has_value() || !bytes.has_value() || *words > kLargest) {
    return invalid("rows", fmt::format("{} rows of {} items have more partial results than can be "
                                       "counted",
                                       shape.rows, layout.items_per_row));
  }
  return PackedSizes{
      .blocks = static_cast<std::int32_t>(shape.multiprocessors * layout.instance->blocks),
      .counters = static_cast<std::int32_t>(*words),
      .plan = Bytes{plan_bytes(most_blocks, shape.rows)},
      .workspace = Bytes{*bytes}};
}

Result<PackedMemory> packed_memory(const PackedShape& shape, std::int64_t plans) {
  FieldChecker check;
  check.in("plans", plans, 1, std::int64_t{1} << 20);
  if (auto checked = check.result(); !checked) {
    return std::move(checked).error();
  }
  const auto sizes = packed_sizes(shape);
  if (!sizes) {
    return sizes.error();
  }
  constexpr Bytes kPart{256};
  return PackedMemory{.exchange = align_up(Bytes{std::int64_t{4} * sizes->counters}, kPart),
                      .plan = align_up(sizes->plan, kPart),
                      .workspace = sizes->workspace,
                      .plans = plans};
}

Result<void> check(const PackedPlanParams& params) {
  FieldChecker check;
  check.in("rows", params.rows, 0, kLargest);
  check.in("max_query_tokens", params.max_query_tokens, 0, kLargestTokens);
  check.in("kv_heads", params.kv_heads, 1, kLargestTokens);
  check.in("query_heads", params.query_heads, 1, kLargestTokens);
  if (params.kv_heads > 0 && params.query_heads % params.kv_heads != 0) {
    check.fail(ErrorCode::kInvalidArgument, "query_heads",
               fmt::format("{} query heads do not divide among {} KV heads", params.query_heads,
                           params.kv_heads));
  }
  check.in("window_left", params.window_left, -1, kLargest);
  check.in("blocks", params.blocks, 1, kLargestBlocks);
  check_head_dim(check, "head_dim", params.head_dim);
  check_split(check, params.split_tokens);
  check_instance(check, params.instance, params.head_dim, params.split_tokens);
  check.in("plan_bytes", params.plan_bytes, plan_bytes(params.blocks, params.rows),
           std::numeric_limits<std::int64_t>::max());
  if (params.rows > 0) {
    check.aligned("plan", params.plan, kAlignment);
    check.aligned("lengths", params.lengths, alignof(std::int32_t));
  }
  if (params.q_indptr != nullptr) {
    check.aligned("q_indptr", params.q_indptr, alignof(std::int32_t));
  }
  return check.result();
}

Result<void> check_packed(const AttentionParams& params, const PackedOptions& options) {
  if (auto checked = kernels::check(params); !checked) {
    return checked;
  }
  FieldChecker check;
  check_head_dim(check, "k.dim", params.k.dim);
  if (params.v.dim != params.k.dim) {
    check.fail(ErrorCode::kUnsupported, "v.dim",
               fmt::format("v.dim is {} and k.dim {}: packed attention takes equal ones",
                           params.v.dim, params.k.dim));
  }
  if (!packs(params.k.type, 64)) {
    check.fail(ErrorCode::kUnsupported, "k.type", "packed attention takes bf16 and fp16");
  }
  if (params.table.tokens_per_block % kStep != 0) {
    check.fail(ErrorCode::kUnsupported, "table.tokens_per_block",
               fmt::format("pages of {} tokens: packed attention takes multiples of {}",
                           params.table.tokens_per_block, kStep));
  }
  check.in("max_query_tokens", params.max_query_tokens, 0, kLargestTokens);
  check.in("query_heads", params.query_heads, 1, kLargestTokens);
  check_split(check, options.split_tokens);
  check_instance(check, options.instance, params.k.dim, options.split_tokens);
  if (options.instance >= 0 && check.result().has_value() &&
      packed_instance_at(options.instance, params.k.dim)->type != params.k.type) {
    check.fail(
        ErrorCode::kInvalidArgument, "instance",
        fmt::format("instance {} is not for {} keys", options.instance, name_of(params.k.type)));
  }
  if (auto checked = check.result(); !checked || params.tokens == 0 || params.table.rows == 0) {
    return checked;
  }
  const PackedLayout layout = packed_layout(params, options);
  const SplitPlan& split = params.split;
  check.in("split.blocks", split.blocks, 1, kLargestBlocks);
  check.aligned("split.plan", split.plan, kAlignment);
  check.in("split.plan_bytes", split.plan_bytes, plan_bytes(split.blocks, params.table.rows),
           std::numeric_limits<std::int64_t>::max());
  if (merges_in_place(options)) {
    const auto words =
        exchange_words(layout.instance->row_tiles, layout.instance->dim, split.blocks).to_int64();
    check.in("split.counter_count", split.counter_count, words.value_or(kLargest), kLargest);
    check.aligned("split.counters", split.counters, kAlignment);
  }
  const auto needed =
      workspace_bytes(layout, params.table.rows, options.split_tokens, options.max_length)
          .to_int64();
  if (!needed.has_value()) {
    check.fail(ErrorCode::kInvalidArgument, "max_length",
               "more partial results than can be counted");
  }
  if (auto checked = check.result(); !checked) {
    return checked;
  }
  return check_workspace(params, Bytes{*needed});
}

Result<void> plan_packed_attention_on_host(const PackedPlanParams& params) {
  if (auto checked = check(params); !checked || params.rows == 0) {
    return checked;
  }
  const packed::PlanShape shape = plan_shape(params);
  const auto plan = packed::layout_of(params.plan, params.blocks);
  std::int64_t total = 0;
  std::int64_t first_row = 0;
  for (std::int64_t row = 0; row < params.rows; ++row) {
    if (params.lengths[row] < 0) {
      return Error{.code = ErrorCode::kOutOfRange,
                   .message = fmt::format("row {} has {} tokens", row, params.lengths[row]),
                   .key = "lengths"};
    }
    PlanRow record = packed::plan_row(params, row, params.lengths[row]);
    if (record.q_count < 0 || record.q_count > params.max_query_tokens) {
      return Error{.code = ErrorCode::kOutOfRange,
                   .message = fmt::format("row {} has {} query tokens: 0 to {}", row,
                                          record.q_count, params.max_query_tokens),
                   .key = "q_indptr"};
    }
    record.base = total;
    total +=
        shape.items_per_row * packed::item_cost(packed::steps_of(record.length, record.first_step),
                                                shape.split_steps, shape.start);
    first_row = row == 0 ? total : first_row;
    plan.rows[row] = record;
  }
  const PlanHeader header = packed::plan_header(total, params.rows, first_row, shape);
  *plan.header = header;
  std::int64_t row = 0;
  for (std::int64_t block = 0; block < params.blocks; ++block) {
    PlanBlock record;
    if (block < header.blocks) {
      const auto advance = [&](std::int64_t from, std::int64_t position) {
        while (from + 1 < params.rows && plan.rows[from + 1].base <= position) {
          ++from;
        }
        return from;
      };
      row = advance(row, packed::cost_of(block, header));
      const std::int64_t last = advance(row, packed::cost_of(block + 1, header) - 1);
      record = packed::plan_block(block, header, row, plan.rows[row], plan.rows[last]);
    }
    plan.blocks[block] = record;
  }
  return {};
}

}  // namespace kvpool::kernels
