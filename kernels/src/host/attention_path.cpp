// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/attention_path.hpp>

#include <kvpool/core/checked.hpp>
#include <kvpool/kernels/decode_row_params.hpp>

#include "host/field_checker.hpp"
#include "smxx/packed_attention/plan_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace kvpool::kernels {
namespace {

constexpr std::string_view kHopper =
    "not measured with these two forms. FlashInfer's on an H200: one row a query token on CUDA "
    "cores beats a context pass without split up to batch 4 at 2 KV heads (0.36 and 0.52 of its "
    "time; 1.06 and more at 16) and at batch 1 at 16 (0.70; 1.37 at 4)";

constexpr std::array kGates = {
    PathGate{"sm_90", 2, 4, false, kHopper},
    PathGate{"sm_90", 16, 1, false, kHopper},
    PathGate{"sm_100", 0, 32, true, "measured by TensorRT-LLM (#20373)"},
    PathGate{"sm_103", 0, 32, false, "not measured; the limit of TensorRT-LLM (#20373)"},
    PathGate{"sm_107", 0, 32, true, "measured by TensorRT-LLM (#20373)"},
};

bool has_window(const KeyMask& mask) { return mask.window_left >= 0 || mask.window_right >= 0; }

/// Keys of the one piece into which context cuts a sequence.
std::int32_t whole_split(std::int64_t max_length) {
  constexpr std::int64_t kStep = packed::kStep;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / kStep * kStep;
  const std::int64_t length = std::clamp<std::int64_t>(max_length, 1, kMost);
  return static_cast<std::int32_t>((length + kStep - 1) / kStep * kStep);
}

}  // namespace

std::string_view to_string(AttentionPath path) noexcept {
  switch (path) {
    case AttentionPath::kPacked: return "packed";
    case AttentionPath::kDecodeRows: return "decode_rows";
    case AttentionPath::kContext: return "context";
  }
  return "packed";
}

std::span<const PathGate> path_gates() noexcept { return kGates; }

std::optional<PathGate> find_path_gate(std::string_view architecture,
                                       std::int64_t kv_heads) noexcept {
  for (const PathGate& gate : kGates) {
    if (gate.architecture == architecture &&
        (gate.max_kv_heads == 0 || kv_heads <= gate.max_kv_heads)) {
      return gate;
    }
  }
  return std::nullopt;
}

Result<AttentionPath> choose_path(PathPolicy policy, const KeyMask& mask, std::int64_t batch,
                                  std::int64_t limit) {
  if (batch < 0 || limit < 0) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("a batch of {} and a limit of {}: give numbers from 0",
                                        batch, limit),
                 .key = batch < 0 ? "batch" : "limit"};
  }
  if (policy == PathPolicy::kPacked || mask.causal != 0 || has_window(mask)) {
    return AttentionPath::kPacked;
  }
  return batch <= limit ? AttentionPath::kDecodeRows : AttentionPath::kContext;
}

PackedShape on_path(const PathStep& step, PackedShape shape) noexcept {
  if (step.path == AttentionPath::kDecodeRows) {
    // Whether the counts are any good, `packed_sizes` says.
    shape.rows = (CheckedInt{shape.rows} * shape.max_query_tokens)
                     .to_int64()
                     .value_or(std::numeric_limits<std::int64_t>::max());
    shape.max_query_tokens = 1;
  } else if (step.path == AttentionPath::kContext) {
    shape.split_tokens = whole_split(step.max_length);
    shape.max_length = step.max_length;
  }
  return shape;
}

PackedPlanParams on_path(const PathStep& step, PackedPlanParams params) noexcept {
  if (step.path == AttentionPath::kDecodeRows) {
    params.lengths = step.rows.lengths;
    params.rows = step.rows.rows;
    params.q_indptr = nullptr;
    params.max_query_tokens = 1;
  } else if (step.path == AttentionPath::kContext) {
    params.split_tokens = whole_split(step.max_length);
  }
  return params;
}

AttentionParams on_path(const PathStep& step, AttentionParams params) noexcept {
  if (step.path == AttentionPath::kDecodeRows) {
    params.table = step.rows;
    params.q_indptr = nullptr;
    params.max_query_tokens = 1;
  }
  return params;
}

PackedOptions options_on_path(const PathStep& step) noexcept {
  if (step.path == AttentionPath::kContext) {
    return {.split_tokens = whole_split(step.max_length), .max_length = step.max_length};
  }
  return {};
}

Result<void> check_path(const PathStep& step, const AttentionParams& params) {
  if (step.path == AttentionPath::kPacked) {
    return {};
  }
  const KeyMask mask{params.causal, params.window_left, params.window_right};
  if (mask.causal != 0 || has_window(mask)) {
    return Error{
        .code = ErrorCode::kUnsupported,
        .message = fmt::format("the path {} takes layers whose query tokens all see the "
                               "whole sequence, and this one has a {}: run it packed",
                               to_string(step.path), mask.causal != 0 ? "causal mask" : "window"),
        .key = "path"};
  }
  FieldChecker check;
  if (step.path == AttentionPath::kDecodeRows) {
    check.in("rows.rows", step.rows.rows, params.tokens, params.tokens);
    check.in("rows.tokens_per_block", step.rows.tokens_per_block, params.table.tokens_per_block,
             params.table.tokens_per_block);
  } else {
    check.in("max_length", step.max_length, 1, std::numeric_limits<std::int32_t>::max() - 16);
  }
  return check.result();
}

Result<void> run_on_path(const PathStep& step, const AttentionParams& params, PathCalls& calls,
                         const PackedLaunch& launch) {
  if (auto checked = check_path(step, params); !checked) {
    return checked;
  }
  if (auto launched = launch(on_path(step, params), options_on_path(step)); !launched) {
    return launched;
  }
  switch (step.path) {
    case AttentionPath::kPacked: ++calls.packed; break;
    case AttentionPath::kDecodeRows: ++calls.decode_rows; break;
    case AttentionPath::kContext: ++calls.context; break;
  }
  return {};
}

Result<void> check(const DecodeRowParams& params) {
  FieldChecker check;
  check.in("rows", params.rows, 0, FieldChecker::kLargest);
  check.in("tokens", params.tokens, 0, FieldChecker::kLargest);
  check.in("tokens_per_block", params.tokens_per_block, 1, FieldChecker::kLargest);
  check.in("row_stride_entries", params.row_stride_entries, 0, FieldChecker::kLargest);
  if (params.q_indptr == nullptr) {
    check.in("queries", params.queries, 0, FieldChecker::kLargest);
    const std::int64_t rows = params.rows;
    check.in("tokens", params.tokens, rows * params.queries, rows * params.queries);
  } else {
    check.aligned("q_indptr", params.q_indptr, alignof(std::int32_t));
  }
  if (params.tokens > 0) {
    check.aligned("entries", params.entries, alignof(std::int32_t));
    check.aligned("lengths", params.lengths, alignof(std::int32_t));
    check.aligned("row_entries", params.row_entries, alignof(std::int32_t));
    check.aligned("row_lengths", params.row_lengths, alignof(std::int32_t));
  }
  return check.result();
}

}  // namespace kvpool::kernels
