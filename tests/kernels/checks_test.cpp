// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/checks.hpp>

#include "support/catch.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kvpool::kernels {
namespace {

using Catch::Matchers::ContainsSubstring;

/// Something to point at; never read.
alignas(256) std::array<std::byte, 65'536> memory;

template <typename T>
T* at(std::size_t offset = 0) {
  return reinterpret_cast<T*>(memory.data() + offset);  // NOLINT: an address to check
}

CacheOperand cache(std::int32_t dim) {
  return {.base = at<void>(),
          .entry_stride_bytes = 65'536,
          .head_stride_bytes = 16'384,
          .slot_stride_bytes = dim * 2,
          .dim = dim,
          .type = ElementType::kBf16};
}

/// Two rows, five query tokens, 8 query heads on 2.
AttentionParams valid_attention() {
  AttentionParams params;
  params.q = at<void>();
  params.out = at<void>(256);
  params.lse = at<float>();
  params.q_indptr = at<std::int32_t>();
  params.table = {.entries = at<std::int32_t>(),
                  .lengths = at<std::int32_t>(),
                  .row_stride_entries = 10,
                  .rows = 2,
                  .tokens_per_block = 64};
  params.k = cache(128);
  params.v = cache(64);
  params.q_token_stride = 1'024;
  params.q_head_stride = 128;
  params.out_token_stride = 512;
  params.out_head_stride = 64;
  params.lse_token_stride = 8;
  params.lse_head_stride = 1;
  params.tokens = 5;
  params.max_query_tokens = 3;
  params.query_heads = 8;
  params.kv_heads = 2;
  return params;
}

AppendParams valid_append() {
  AppendParams params;
  params.k = at<void>();
  params.v = at<void>();
  params.slot_mapping = at<std::int64_t>();
  params.k_cache = cache(128);
  params.v_cache = cache(64);
  params.v_cache.base = at<void>(32'768);
  params.k_token_stride = 256;
  params.k_head_stride = 128;
  params.v_token_stride = 128;
  params.v_head_stride = 64;
  params.tokens = 5;
  params.kv_heads = 2;
  params.tokens_per_block = 64;
  return params;
}

template <typename Params>
struct Fault {
  std::string key;
  std::function<void(Params&)> break_it;
  std::string message = {};
};

template <typename Params>
void check_faults(const Params& valid, const std::vector<Fault<Params>>& faults) {
  REQUIRE(check(valid).has_value());
  for (const auto& fault : faults) {
    Params params = valid;
    fault.break_it(params);
    const auto checked = check(params);
    INFO(fault.key << " " << fault.message);
    CHECK_FALSE(checked.has_value());
    if (!checked.has_value()) {
      CHECK(checked.error().key == fault.key);
      CHECK_THAT(checked.error().message, ContainsSubstring(fault.message));
    }
  }
}

TEST_CASE("attention: every field that can be wrong is named", "[kernels]") {
  using P = AttentionParams;
  check_faults<P>(
      valid_attention(),
      {{"kv_heads", [](P& p) { p.kv_heads = 0; }},
       {"query_heads", [](P& p) { p.query_heads = 7; }, "7 query heads do not divide among 2"},
       {"query_heads", [](P& p) { p.query_heads = 0; }},
       {"table.rows", [](P& p) { p.table.rows = -1; }},
       {"table.tokens_per_block", [](P& p) { p.table.tokens_per_block = 0; }},
       {"table.tokens_per_block", [](P& p) { p.table.tokens_per_block = 65'537; }},
       {"table.row_stride_entries", [](P& p) { p.table.row_stride_entries = -1; }},
       {"table.lengths", [](P& p) { p.table.lengths = nullptr; }, "is null"},
       {"table.entries", [](P& p) { p.table.entries = at<std::int32_t>(2); }, "4 bytes"},
       {"tokens", [](P& p) { p.tokens = -1; }},
       {"max_query_tokens", [](P& p) { p.max_query_tokens = 0; }},
       {"q_indptr", [](P& p) { p.q_indptr = nullptr; },
        "2 rows has 3 query tokens, and there are 5"},
       {"window_left", [](P& p) { p.window_left = -2; }, "-2: give a value from -1"},
       {"window_right", [](P& p) { p.window_right = -2; }},
       {"causal", [](P& p) { p.causal = 2; }},
       {"lse_base", [](P& p) { p.lse_base = static_cast<LogBase>(2); }},
       {"tokens", [](P& p) { p.table.rows = 0; }, "5 query tokens belong to no row"},
       {"scale", [](P& p) { p.scale = NAN; }},
       {"softcap", [](P& p) { p.softcap = -1.0F; }},
       {"k_scale", [](P& p) { p.k_scale = 0.0F; }},
       {"v_scale", [](P& p) { p.v_scale = INFINITY; }},
       {"k.dim", [](P& p) { p.k.dim = 584; }, "584: kernels take multiples of 8 up to 576"},
       {"k.dim", [](P& p) { p.k.dim = 0; }},
       {"v.dim", [](P& p) { p.v.dim = 60; }},
       {"k.base", [](P& p) { p.k.base = nullptr; }},
       {"v.base", [](P& p) { p.v.base = at<void>(8); }, "not a multiple of 16 bytes"},
       {"k.entry_stride_bytes", [](P& p) { p.k.entry_stride_bytes = 0; }},
       {"k.entry_stride_bytes", [](P& p) { p.k.entry_stride_bytes = 65'544; }},
       {"k.head_stride_bytes", [](P& p) { p.k.head_stride_bytes = 128; }, "below 256"},
       {"v.slot_stride_bytes", [](P& p) { p.v.slot_stride_bytes = 112; }, "below 128"},
       {"k.slot_stride_bytes", [](P& p) { p.k.head_stride_bytes = 16'368; }, "overlaps itself"},
       {"k.slot_stride_bytes", [](P& p) { p.k.head_stride_bytes = p.k.slot_stride_bytes = 256; },
        "64 slots and 2 heads overlaps itself with strides of 256 and 256 bytes"},
       {"k.entry_stride_bytes", [](P& p) { p.k.entry_stride_bytes = std::int64_t{1} << 59; }},
       {"v.head_stride_bytes", [](P& p) { p.v.head_stride_bytes = std::int64_t{1} << 58; }},
       {"k.slot_stride_bytes", [](P& p) { p.k.slot_stride_bytes = std::int64_t{1} << 53; }},
       {"q_token_stride", [](P& p) { p.q_token_stride = std::int64_t{1} << 56; }},
       {"out_head_stride", [](P& p) { p.out_head_stride = std::int64_t{1} << 56; }},
       {"q_type", [](P& p) { p.q_type = ElementType::kFp16; }, "fp16 queries, bf16 keys"},
       {"q_type", [](P& p) { p.out_type = ElementType::kFp32; }},
       {"q_type", [](P& p) { p.v.type = ElementType::kFp16; }},
       {"k_scales",
        [](P& p) { p.k_scales = {.base = at<void>(), .dim = 8, .type = ElementType::kFp32}; },
        "k_scales has 8 fp32 scales a row: no attention kernel reads scales"},
       {"v_scales",
        [](P& p) { p.v_scales = {.base = at<void>(), .dim = 1, .type = ElementType::kFp16}; },
        "v_scales has 1 fp16 scales a row: no attention kernel reads scales"},
       {"q", [](P& p) { p.q = at<void>(2); }},
       {"q_token_stride", [](P& p) { p.q_token_stride = 1'020; }},
       {"q_head_stride", [](P& p) { p.q_head_stride = -128; }},
       {"out", [](P& p) { p.out = nullptr; }},
       {"out_token_stride", [](P& p) { p.out_token_stride = 56; }, "below 128"},
       {"out_token_stride", [](P& p) { p.out_token_stride = 64; }, "overlaps itself"},
       {"lse_token_stride", [](P& p) { p.lse_token_stride = 0; }},
       {"lse_head_stride", [](P& p) { p.lse_head_stride = 0; }},
       {"lse_token_stride", [](P& p) { p.lse_token_stride = 7; },
        "lse of 5 tokens and 8 heads overlaps itself with strides 7 and 1"},
       {"lse_head_stride", [](P& p) { p.lse_head_stride = std::int64_t{1} << 57; }},
       {"sinks", [](P& p) { p.sinks = at<float>(1); }},
       {"workspace_bytes", [](P& p) { p.workspace_bytes = -1; }},
       {"workspace", [](P& p) { p.workspace_bytes = 256; }, "is null"}});
}

TEST_CASE("a stride that is never taken may be any", "[kernels]") {
  AttentionParams params = valid_attention();
  params.tokens = params.max_query_tokens = params.table.rows = 1;
  params.q_token_stride = params.out_token_stride = 7;
  params.kv_heads = 1;
  params.k.head_stride_bytes = params.v.head_stride_bytes = 13;
  CHECK(check(params).has_value());
  params.k.head_stride_bytes = -16;
  CHECK(check(params).error().key == "k.head_stride_bytes");
  params = valid_attention();
  params.query_heads = params.kv_heads = 1;
  params.q_head_stride = params.out_head_stride = 3;
  CHECK(check(params).has_value());
  params.q_head_stride = -8;
  CHECK(check(params).error().key == "q_head_stride");
  params = valid_attention();
  params.table.tokens_per_block = 1;
  params.k.slot_stride_bytes = params.v.slot_stride_bytes = 5;
  CHECK(check(params).has_value());

  AppendParams append = valid_append();
  append.tokens = append.kv_heads = 1;
  append.k_token_stride = append.k_head_stride = 1;
  append.v_token_stride = append.v_head_stride = 0;
  CHECK(check(append).has_value());
  append.tokens = 2;
  CHECK(check(append).error().key == "k_token_stride");

  PageCopyParams copy{.source = at<void>(),
                      .destination = at<void>(256),
                      .pairs = at<PageCopyPair>(),
                      .source_entry_stride_bytes = 64,
                      .source_part_stride_bytes = 9,
                      .destination_entry_stride_bytes = 64,
                      .destination_part_stride_bytes = 0,
                      .part_bytes = 48,
                      .parts = 1,
                      .count = 3};
  CHECK(check(copy).has_value());
  copy.parts = 2;
  CHECK(check(copy).error().key == "source_part_stride_bytes");
}

TEST_CASE("attention: strides of every order and with gaps are taken", "[kernels]") {
  AttentionParams params = valid_attention();
  // Heads outermost, exactly and with a gap.
  params.out_token_stride = 64;
  params.out_head_stride = GENERATE(320, 328);
  params.lse_token_stride = 1;
  params.lse_head_stride = 5;
  CHECK(check(params).has_value());
  // Rows of 64 in steps of 128: between the last head of a token and the next token is no gap.
  params.out_head_stride = 128;
  params.out_token_stride = 7 * 128 + 64;
  CHECK(check(params).has_value());
  params.out_token_stride -= 8;
  CHECK(check(params).error().key == "out_token_stride");
  // Caches: slots outermost, heads outermost, K and V interleaved.
  params = valid_attention();
  for (const auto& [head, slot] : {std::pair{256, 512}, {16'384, 256}, {512, 1'024}, {512, 768}}) {
    params.k.head_stride_bytes = head;
    params.k.slot_stride_bytes = slot;
    CAPTURE(head, slot);
    CHECK(check(params).has_value());
  }
}

TEST_CASE("attention: all types as one are taken, fp8 is not", "[kernels]") {
  AttentionParams params = valid_attention();
  const auto set = [&params](ElementType type) {
    params.q_type = params.out_type = params.k.type = params.v.type = type;
    params.k.slot_stride_bytes = params.v.slot_stride_bytes = 512;
    params.k.head_stride_bytes = params.v.head_stride_bytes = 32'768;
    return check(params);
  };
  CHECK(set(ElementType::kBf16).has_value());
  CHECK(set(ElementType::kFp16).has_value());
  CHECK(set(ElementType::kFp32).has_value());
  const auto fp8 = set(ElementType::kFp8E4m3);
  REQUIRE_FALSE(fp8.has_value());
  CHECK(fp8.error().code == ErrorCode::kUnsupported);
  CHECK(fp8.error().message ==
        "no attention kernel takes fp8_e4m3 queries, fp8_e4m3 keys, fp8_e4m3 values and fp8_e4m3 "
        "outputs: all four are bf16, fp16 or fp32");
  params = valid_attention();
  params.k.type = params.v.type = ElementType::kFp8E4m3;
  const auto fp8_cache = check(params);
  REQUIRE_FALSE(fp8_cache.has_value());
  CHECK(fp8_cache.error().code == ErrorCode::kUnsupported);
  CHECK_THAT(fp8_cache.error().message, ContainsSubstring("bf16 queries, fp8_e4m3 keys"));
}

TEST_CASE("attention: an empty batch needs no addresses", "[kernels]") {
  AttentionParams params = valid_attention();
  params.tokens = 0;
  params.max_query_tokens = 0;
  params.table.rows = 0;
  params.q_indptr = nullptr;
  params.q = params.out = nullptr;
  params.lse = nullptr;
  params.table.entries = params.table.lengths = nullptr;
  CHECK(check(params).has_value());
}

TEST_CASE("a workspace that is too small is told what it needs", "[kernels]") {
  AttentionParams params = valid_attention();
  CHECK(check_workspace(params, Bytes{0}).has_value());
  params.workspace = at<void>();
  params.workspace_bytes = 2'048;
  CHECK(check_workspace(params, Bytes{2'048}).has_value());
  const auto small = check_workspace(params, Bytes{2'049});
  REQUIRE_FALSE(small.has_value());
  CHECK(small.error().message ==
        "the workspace has 2048 bytes and this shape needs 2049: size it for the largest shape "
        "first");
  params.workspace = at<void>(128);
  CHECK(check_workspace(params, Bytes{16}).error().key == "workspace");
}

TEST_CASE("append: every field that can be wrong is named", "[kernels]") {
  using P = AppendParams;
  check_faults<P>(
      valid_append(),
      {{"tokens", [](P& p) { p.tokens = -1; }},
       {"kv_heads", [](P& p) { p.kv_heads = 0; }},
       {"tokens_per_block", [](P& p) { p.tokens_per_block = 0; }},
       {"k_cache.dim", [](P& p) { p.k_cache.dim = 12; }},
       {"k_cache.base", [](P& p) { p.k_cache.base = nullptr; }},
       {"v_cache.slot_stride_bytes", [](P& p) { p.v_cache.slot_stride_bytes = 64; }},
       {"k", [](P& p) { p.k = nullptr; }},
       {"k_token_stride", [](P& p) { p.k_token_stride = 4; }},
       {"v_head_stride", [](P& p) { p.v_head_stride = 63; }},
       {"source_type", [](P& p) { p.source_type = ElementType::kFp16; }, "fp16 rows into a bf16"},
       {"source_type", [](P& p) { p.v_cache.type = ElementType::kFp16; }, "into a fp16 cache"},
       {"source_type", [](P& p) { p.k_cache.type = ElementType::kFp8E4m3; },
        "no append kernel writes bf16 rows into a fp8_e4m3 cache: both are bf16, fp16 or fp32"},
       {"source_type", [](P& p) { p.v_cache.type = ElementType::kFp8E4m3; },
        "into a fp8_e4m3 cache"},
       {"source_type",
        [](P& p) { p.source_type = p.k_cache.type = p.v_cache.type = ElementType::kFp8E4m3; },
        "fp8_e4m3 rows into a fp8_e4m3 cache"},
       {"k_scale", [](P& p) { p.k_scale = 2.0F; }, "k_scale is 2 and v_scale 1"},
       {"k_scale", [](P& p) { p.v_scale = 0.5F; }},
       {"v_cache.base", [](P& p) { p.v_cache.base = p.k_cache.base; }, "leave v null"},
       {"k_cache.slot_stride_bytes", [](P& p) { p.k_cache.head_stride_bytes = 256; },
        "overlaps itself"},
       {"slot_mapping", [](P& p) { p.slot_mapping = nullptr; }}});
}

TEST_CASE("page copy: every field that can be wrong is named", "[kernels]") {
  using P = PageCopyParams;
  const P valid{.source = at<void>(),
                .destination = at<void>(256),
                .pairs = at<PageCopyPair>(),
                .source_entry_stride_bytes = 64,
                .source_part_stride_bytes = 48,
                .destination_entry_stride_bytes = 64,
                .destination_part_stride_bytes = 48,
                .part_bytes = 48,
                .parts = 2,
                .count = 3};
  check_faults<P>(
      valid,
      {{"count", [](P& p) { p.count = -1; }},
       {"parts", [](P& p) { p.parts = 0; }},
       {"part_bytes", [](P& p) { p.part_bytes = 0; }},
       {"part_bytes", [](P& p) { p.part_bytes = 40; }, "not a multiple of 16"},
       {"part_bytes", [](P& p) { p.part_bytes = std::int64_t{1} << 61; }},
       {"part_bytes", [](P& p) { p.part_bytes = std::int64_t{1} << 58; }, "more than 2^60 bytes"},
       {"source", [](P& p) { p.source = nullptr; }},
       {"destination", [](P& p) { p.destination = at<void>(8); }, "not a multiple of 16 bytes"},
       {"pairs", [](P& p) { p.pairs = at<PageCopyPair>(2); }, "4 bytes"},
       {"source_entry_stride_bytes", [](P& p) { p.source_entry_stride_bytes = 0; }},
       {"source_entry_stride_bytes", [](P& p) { p.source_entry_stride_bytes = -64; }},
       {"source_part_stride_bytes", [](P& p) { p.source_part_stride_bytes = 32; }, "below 48"},
       {"destination_entry_stride_bytes", [](P& p) { p.destination_entry_stride_bytes = 24; }},
       {"destination_part_stride_bytes", [](P& p) { p.destination_part_stride_bytes = 0; },
        "below 48"},
       {"source_part_stride_bytes",
        [](P& p) { p.source_part_stride_bytes = std::int64_t{1} << 60; }}});
  P none = valid;
  none.count = 0;
  none.source = none.destination = nullptr;
  none.pairs = nullptr;
  CHECK(check(none).has_value());
}

TEST_CASE("table deltas: every field that can be wrong is named", "[kernels]") {
  using P = TableDeltaParams;
  const P valid{.entries = at<std::int32_t>(),
                .lengths = at<std::int32_t>(),
                .deltas = at<PageTableDelta>(),
                .delta_count = at<std::int32_t>(),
                .new_lengths = at<std::int32_t>(),
                .row_stride_entries = 7,
                .delta_capacity = 3,
                .rows = 2};
  check_faults<P>(valid, {{"delta_capacity", [](P& p) { p.delta_capacity = -1; }},
                          {"rows", [](P& p) { p.rows = -1; }},
                          {"entries", [](P& p) { p.entries = nullptr; }},
                          {"deltas", [](P& p) { p.deltas = at<PageTableDelta>(2); }, "4 bytes"},
                          {"row_stride_entries", [](P& p) { p.row_stride_entries = 0; }},
                          {"delta_count", [](P& p) { p.delta_count = at<std::int32_t>(1); }},
                          {"new_lengths", [](P& p) { p.new_lengths = at<std::int32_t>(2); }},
                          {"lengths", [](P& p) { p.lengths = nullptr; }}});
  CHECK(check(P{}).has_value());
  CHECK(check(P{.lengths = at<std::int32_t>(), .new_lengths = at<std::int32_t>(), .rows = 2})
            .has_value());
}

TEST_CASE("merge: every field that can be wrong is named", "[kernels]") {
  using P = MergeParams;
  const P valid{.partial_out = at<float>(),
                .partial_lse = at<float>(),
                .part_indptr = at<std::int32_t>(),
                .out = at<void>(256),
                .lse = at<float>(),
                .partial_row_stride = 64,
                .out_token_stride = 512,
                .out_head_stride = 64,
                .lse_token_stride = 8,
                .lse_head_stride = 1,
                .tokens = 5,
                .query_heads = 8,
                .dim = 64};
  check_faults<P>(
      valid, {{"tokens", [](P& p) { p.tokens = -1; }},
              {"tokens", [](P& p) { p.tokens = 1 << 30; }, "1073741824 tokens of 8 heads"},
              {"query_heads", [](P& p) { p.query_heads = 0; }},
              {"parts", [](P& p) { p.parts = -1; }},
              {"dim", [](P& p) { p.dim = 60; }, "60: kernels take multiples of 8 up to 576"},
              {"dim", [](P& p) { p.dim = 584; }},
              {"out_type", [](P& p) { p.out_type = ElementType::kFp8E4m3; },
               "no merge kernel writes fp8_e4m3 outputs: they are bf16, fp16 or fp32"},
              {"lse_base", [](P& p) { p.lse_base = static_cast<LogBase>(2); }},
              {"partial_out", [](P& p) { p.partial_out = at<float>(4); }, "16 bytes"},
              {"partial_lse", [](P& p) { p.partial_lse = nullptr; }},
              {"part_indptr", [](P& p) { p.part_indptr = at<std::int32_t>(2); }},
              {"partial_row_stride", [](P& p) { p.partial_row_stride = 32; }, "below 256"},
              {"partial_row_stride", [](P& p) { p.partial_row_stride = 66; }, "multiple of 16"},
              {"partial_row_stride", [](P& p) { p.partial_row_stride = std::int64_t{1} << 28; }},
              {"out", [](P& p) { p.out = nullptr; }},
              {"out_token_stride", [](P& p) { p.out_token_stride = 64; }, "overlaps itself"},
              {"lse_token_stride", [](P& p) { p.lse_token_stride = 0; }},
              {"sinks", [](P& p) { p.sinks = at<float>(1); }}});
  P empty = valid;
  empty.part_indptr = nullptr;  // and no parts
  empty.partial_out = empty.partial_lse = nullptr;
  CHECK(check(empty).has_value());
  empty.partial_row_stride = 0;
  CHECK(check(empty).has_value());
  empty.partial_row_stride = 64;
  empty.parts = 1;
  CHECK(check(empty).error().key == "partial_out");
}

TEST_CASE("append: without values the value cache is not looked at", "[kernels]") {
  AppendParams params = valid_append();
  params.v = nullptr;
  params.v_cache = {};
  CHECK(check(params).has_value());
}

}  // namespace
}  // namespace kvpool::kernels
