// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/checks.hpp>

#include "capability_rows.hpp"
#include "host/field_checker.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace kvpool::kernels {
namespace {

constexpr std::int64_t kLargest = FieldChecker::kLargest;
/// Pages of more token slots are taken for mistakes, as in `page_geometry`.
constexpr std::int64_t kLargestPage = 65'536;
constexpr std::int64_t kWorkspaceAlignment = 256;

void check_heads(const AttentionParams& params, FieldChecker& check) {
  check.in("kv_heads", params.kv_heads, 1, kLargest);
  check.in("query_heads", params.query_heads, 1, kLargest);
  if (params.kv_heads > 0 && params.query_heads % params.kv_heads != 0) {
    check.fail(ErrorCode::kInvalidArgument, "query_heads",
               fmt::format("{} query heads do not divide among {} KV heads: give a multiple",
                           params.query_heads, params.kv_heads));
  }
}

void check_no_scales(std::string_view field, const CacheOperand& scales, FieldChecker& check) {
  if (scales.base != nullptr) {
    check.fail(ErrorCode::kUnsupported, field,
               fmt::format("{} has {} {} scales a row: no attention kernel reads scales from the "
                           "pool, leave it empty",
                           field, scales.dim, name_of(scales.type)));
  }
}

void check_types(const AttentionParams& params, FieldChecker& check) {
  const ElementType type = params.k.type;
  const bool one_type = params.v.type == type && params.q_type == type && params.out_type == type;
  if (!one_type || !attends(type, std::max(params.k.dim, params.v.dim))) {
    check.fail(ErrorCode::kUnsupported, "q_type",
               fmt::format("no attention kernel takes {} queries, {} keys, {} values and {} "
                           "outputs: all four are bf16, fp16 or fp32",
                           name_of(params.q_type), name_of(type), name_of(params.v.type),
                           name_of(params.out_type)));
  }
  check_no_scales("k_scales", params.k_scales, check);
  check_no_scales("v_scales", params.v_scales, check);
}

void check_batch(const AttentionParams& params, FieldChecker& check) {
  const PageTableView& table = params.table;
  check.in("table.rows", table.rows, 0, kLargest);
  check.in("table.tokens_per_block", table.tokens_per_block, 1, kLargestPage);
  check.in("table.row_stride_entries", table.row_stride_entries, 0, kLargest);
  check.in("tokens", params.tokens, 0, kLargest);
  check.in("max_query_tokens", params.max_query_tokens, params.tokens > 0 ? 1 : 0,
           std::max(params.tokens, params.max_query_tokens));
  if (params.q_indptr == nullptr &&
      std::int64_t{table.rows} * params.max_query_tokens != params.tokens) {
    check.fail(ErrorCode::kInvalidArgument, "q_indptr",
               fmt::format("without q_indptr every one of {} rows has {} query tokens, and there "
                           "are {}: give q_indptr",
                           table.rows, params.max_query_tokens, params.tokens));
  }
  if (table.rows == 0 && params.tokens > 0) {
    check.fail(ErrorCode::kInvalidArgument, "tokens",
               fmt::format("{} query tokens belong to no row: table.rows is 0, give their rows",
                           params.tokens));
  }
  if (table.rows > 0) {
    check.aligned("table.lengths", table.lengths, alignof(std::int32_t));
    check.aligned("table.entries", table.entries, alignof(std::int32_t));
  }
  if (params.q_indptr != nullptr) {
    check.aligned("q_indptr", params.q_indptr, alignof(std::int32_t));
  }
}

void check_numbers(const AttentionParams& params, FieldChecker& check) {
  check.in("window_left", params.window_left, -1, kLargest);
  check.in("window_right", params.window_right, -1, kLargest);
  check.in("causal", params.causal, 0, 1);
  check.in("lse_base", static_cast<std::int64_t>(params.lse_base), 0, 1);
  const auto number = [&check](std::string_view field, float value, bool valid) {
    if (!valid || !std::isfinite(value)) {
      check.fail(ErrorCode::kInvalidArgument, field,
                 fmt::format("{} is {}: it must be a finite number{}", field, value,
                             field == "softcap" ? ", 0 (none) or above"
                             : field == "scale" ? ""
                                                : " above 0"));
    }
  };
  number("scale", params.scale, true);
  number("softcap", params.softcap, params.softcap >= 0.0F);
  number("k_scale", params.k_scale, params.k_scale > 0.0F);
  number("v_scale", params.v_scale, params.v_scale > 0.0F);
}

}  // namespace

Result<void> check_workspace(const AttentionParams& params, Bytes required) {
  FieldChecker check;
  if (params.workspace_bytes < required.count()) {
    check.fail(ErrorCode::kInvalidArgument, "workspace_bytes",
               fmt::format("the workspace has {} bytes and this shape needs {}: size it for the "
                           "largest shape first",
                           params.workspace_bytes, required.count()));
  }
  if (params.workspace_bytes != 0 || params.workspace != nullptr) {
    check.in("workspace_bytes", params.workspace_bytes, 1,
             std::numeric_limits<std::int64_t>::max());
    check.aligned("workspace", params.workspace, kWorkspaceAlignment);
  }
  return check.result();
}

Result<void> check(const AttentionParams& params) {
  FieldChecker check;
  check_heads(params, check);
  check_batch(params, check);
  check_numbers(params, check);
  check.cache("k", params.k, params.kv_heads, params.table.tokens_per_block);
  check.cache("v", params.v, params.kv_heads, params.table.tokens_per_block);
  check_types(params, check);
  check.rows({.name = "q",
              .address = params.q,
              .token_stride = params.q_token_stride,
              .head_stride = params.q_head_stride,
              .tokens = params.tokens,
              .heads = params.query_heads,
              .dim = params.k.dim,
              .type = params.q_type});
  check.rows({.name = "out",
              .address = params.out,
              .token_stride = params.out_token_stride,
              .head_stride = params.out_head_stride,
              .tokens = params.tokens,
              .heads = params.query_heads,
              .dim = params.v.dim,
              .type = params.out_type,
              .written = true});
  check.lse(params.lse, params.lse_token_stride, params.lse_head_stride, params.tokens,
            params.query_heads);
  if (params.sinks != nullptr) {
    check.aligned("sinks", params.sinks, alignof(float));
  }
  if (auto checked = check.result(); !checked) {
    return checked;
  }
  return check_workspace(params, Bytes{0});
}

Result<void> check(const AppendParams& params) {
  FieldChecker check;
  check.in("tokens", params.tokens, 0, kLargest);
  check.in("kv_heads", params.kv_heads, 1, kLargest);
  check.in("tokens_per_block", params.tokens_per_block, 1, kLargestPage);
  const bool writes_values = params.v != nullptr;
  check.cache("k_cache", params.k_cache, params.kv_heads, params.tokens_per_block);
  check.rows({.name = "k",
              .address = params.k,
              .token_stride = params.k_token_stride,
              .head_stride = params.k_head_stride,
              .tokens = params.tokens,
              .heads = params.kv_heads,
              .dim = params.k_cache.dim,
              .type = params.source_type});
  if (writes_values) {
    check.cache("v_cache", params.v_cache, params.kv_heads, params.tokens_per_block);
    check.rows({.name = "v",
                .address = params.v,
                .token_stride = params.v_token_stride,
                .head_stride = params.v_head_stride,
                .tokens = params.tokens,
                .heads = params.kv_heads,
                .dim = params.v_cache.dim,
                .type = params.source_type});
    if (params.v_cache.base == params.k_cache.base) {
      check.fail(ErrorCode::kInvalidArgument, "v_cache.base",
                 "v_cache.base is k_cache.base, so values would overwrite keys: leave v null where "
                 "they are part of the keys (MLA)");
    }
  }
  const bool one_type = params.k_cache.type == params.source_type &&
                        (!writes_values || params.v_cache.type == params.source_type);
  if (!one_type || !appends(params.source_type)) {
    const ElementType other = params.k_cache.type != params.source_type || !writes_values
                                  ? params.k_cache.type
                                  : params.v_cache.type;
    check.fail(ErrorCode::kUnsupported, "source_type",
               fmt::format("no append kernel writes {} rows into a {} cache: both are bf16, fp16 "
                           "or fp32",
                           name_of(params.source_type), name_of(other)));
  }
  if (params.k_scale != 1.0F || params.v_scale != 1.0F) {
    check.fail(ErrorCode::kInvalidArgument, "k_scale",
               fmt::format("k_scale is {} and v_scale {}: without a quantised cache both are 1",
                           params.k_scale, params.v_scale));
  }
  if (params.tokens > 0) {
    check.aligned("slot_mapping", params.slot_mapping, alignof(std::int64_t));
  }
  return check.result();
}

}  // namespace kvpool::kernels
