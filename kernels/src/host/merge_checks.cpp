// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/checks.hpp>

#include "host/field_checker.hpp"

#include <algorithm>
#include <cstdint>

namespace kvpool::kernels {
namespace {

constexpr ElementType kPartials = ElementType::kFp32;

void check_partials(const MergeParams& params, FieldChecker& check) {
  if (params.part_indptr != nullptr) {
    check.aligned("part_indptr", params.part_indptr, alignof(std::int32_t));
  } else if (params.parts == 0) {
    return;  // every item is empty
  }
  check.aligned("partial_out", params.partial_out, kAlignment);
  check.aligned("partial_lse", params.partial_lse, alignof(float));
}

}  // namespace

Result<void> check(const MergeParams& params) {
  FieldChecker check;
  check.in("tokens", params.tokens, 0, FieldChecker::kLargest);
  check.in("query_heads", params.query_heads, 1, FieldChecker::kLargest);
  check.in("parts", params.parts, 0, FieldChecker::kLargest);
  check.dim("dim", params.dim);
  if (std::int64_t{params.tokens} * params.query_heads > FieldChecker::kLargest) {
    check.fail(
        ErrorCode::kInvalidArgument, "tokens",
        fmt::format("{} tokens of {} heads are more items than 32 bits count: merge fewer at once",
                    params.tokens, params.query_heads));
  }
  if (params.out_type == ElementType::kFp8E4m3) {
    check.fail(ErrorCode::kUnsupported, "out_type",
               fmt::format("no merge kernel writes {} outputs: they are bf16, fp16 or fp32",
                           name_of(params.out_type)));
  }
  check.in("out_type", static_cast<std::int64_t>(params.out_type), 0, 3);
  check.in("lse_base", static_cast<std::int64_t>(params.lse_base), 0, 1);
  if (params.tokens > 0) {
    check_partials(params, check);
    if (check.result()) {
      // Without part_indptr the struct tells how many rows there are; with it 32 bits count them.
      const std::int64_t items = std::int64_t{params.tokens} * params.query_heads;
      const std::int64_t rows =
          params.part_indptr == nullptr ? items * params.parts : FieldChecker::kLargest;
      check.in("partial_row_stride", params.partial_row_stride, 0,
               FieldChecker::kMaxStride / std::max(rows, std::int64_t{1}));
    }
    const bool no_rows = params.part_indptr == nullptr && params.parts == 0;
    if (check.result() && !no_rows) {
      check.stride("partial_row_stride", params.partial_row_stride * element_bytes(kPartials),
                   params.dim * element_bytes(kPartials));
    }
  }
  check.rows({.name = "out",
              .address = params.out,
              .token_stride = params.out_token_stride,
              .head_stride = params.out_head_stride,
              .tokens = params.tokens,
              .heads = params.query_heads,
              .dim = params.dim,
              .type = params.out_type,
              .written = true});
  check.lse(params.lse, params.lse_token_stride, params.lse_head_stride, params.tokens,
            params.query_heads);
  if (params.sinks != nullptr) {
    check.aligned("sinks", params.sinks, alignof(float));
  }
  return check.result();
}

}  // namespace kvpool::kernels
