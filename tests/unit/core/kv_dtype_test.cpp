// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/core/kv_dtype.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace kvpool {
namespace {

std::optional<RowBytes> row(std::int64_t data, std::int64_t scales) {
  return RowBytes{.data = Bytes{data}, .scales = Bytes{scales}};
}

TEST_CASE("a format reads back from its name", "[core][kv_dtype]") {
  CHECK(all_kv_dtypes().size() == 11);
  std::set<std::string> names;
  for (const KvDtype dtype : all_kv_dtypes()) {
    INFO(to_string(dtype));
    CHECK(parse_kv_dtype(to_string(dtype)) == dtype);
    names.emplace(to_string(dtype));
  }
  CHECK(names == std::set<std::string>{"fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2",
                                       "fp8_e4m3_per_token_head", "fp8_e5m2_per_token_head",
                                       "int8_per_token_head", "nvfp4", "fp8_ds_mla", "fp4_mla"});
}

TEST_CASE("spellings of engines and checkpoints are read", "[core][kv_dtype]") {
  using Spelling = std::pair<std::string_view, KvDtype>;
  for (const auto& [text, dtype] : {
           Spelling{"bfloat16", KvDtype::kBf16},
           Spelling{"float16", KvDtype::kFp16},
           Spelling{"half", KvDtype::kFp16},
           Spelling{"float32", KvDtype::kFp32},
           Spelling{"float", KvDtype::kFp32},
           Spelling{"fp8", KvDtype::kFp8E4m3},
           Spelling{"float8_e4m3fn", KvDtype::kFp8E4m3},
           Spelling{"e4m3", KvDtype::kFp8E4m3},
           Spelling{"float8_e5m2", KvDtype::kFp8E5m2},
           Spelling{"e5m2", KvDtype::kFp8E5m2},
           Spelling{"int8", KvDtype::kInt8PerTokenHead},
           Spelling{"fp8_per_token_head", KvDtype::kFp8E4m3PerTokenHead},
           Spelling{"fp4", KvDtype::kNvfp4},
           Spelling{"nvfp4", KvDtype::kNvfp4},
       }) {
    INFO(text);
    CHECK(parse_kv_dtype(text) == dtype);
  }
  for (const std::string_view text : {"", "auto", "BF16", "bf16 ", "int4", "fp8_e4m3fnuz", "fp"}) {
    INFO(text);
    CHECK(parse_kv_dtype(text) == std::nullopt);
  }
}

TEST_CASE("a row of keys or values takes these bytes", "[core][kv_dtype]") {
  CHECK(key_value_row(KvDtype::kFp32, 128) == row(512, 0));
  CHECK(key_value_row(KvDtype::kBf16, 128) == row(256, 0));
  CHECK(key_value_row(KvDtype::kFp16, 128) == row(256, 0));
  CHECK(key_value_row(KvDtype::kFp8E4m3, 128) == row(128, 0));
  CHECK(key_value_row(KvDtype::kFp8E5m2, 128) == row(128, 0));
  CHECK(key_value_row(KvDtype::kFp8E4m3PerTokenHead, 128) == row(128, 4));
  CHECK(key_value_row(KvDtype::kFp8E5m2PerTokenHead, 192) == row(192, 4));
  CHECK(key_value_row(KvDtype::kInt8PerTokenHead, 128) == row(128, 4));
  CHECK(key_value_row(KvDtype::kNvfp4, 128) == row(64, 8));
  CHECK(key_value_row(KvDtype::kNvfp4, 80) == row(40, 5));
  CHECK(key_value_row(KvDtype::kNvfp4, 17) == row(9, 2));
  CHECK(key_value_row(KvDtype::kFp8DsMla, 128) == std::nullopt);
  CHECK(key_value_row(KvDtype::kFp4Mla, 128) == std::nullopt);
}

TEST_CASE("a latent row of 512 + 64 takes these bytes", "[core][kv_dtype]") {
  CHECK(latent_row(KvDtype::kFp32, 512, 64) == row(2304, 0));
  CHECK(latent_row(KvDtype::kBf16, 512, 64) == row(1152, 0));
  CHECK(latent_row(KvDtype::kFp16, 512, 64) == row(1152, 0));
  CHECK(latent_row(KvDtype::kFp8E4m3, 512, 64) == row(576, 0));
  CHECK(latent_row(KvDtype::kFp8E5m2, 512, 64) == row(576, 0));
  CHECK(latent_row(KvDtype::kNvfp4, 512, 64) == row(288, 36));
  CHECK(latent_row(KvDtype::kFp8DsMla, 512, 64) == row(656, 0));
  CHECK(latent_row(KvDtype::kFp4Mla, 512, 64) == row(320, 72));
  CHECK(latent_row(KvDtype::kFp8E4m3PerTokenHead, 512, 64) == std::nullopt);
  CHECK(latent_row(KvDtype::kFp8E5m2PerTokenHead, 512, 64) == std::nullopt);
  CHECK(latent_row(KvDtype::kInt8PerTokenHead, 512, 64) == std::nullopt);
  CHECK(latent_row(KvDtype::kBf16, 256, 32) == row(576, 0));
}

TEST_CASE("an indexer key takes a byte an element and a scale per 128", "[core][kv_dtype]") {
  CHECK(indexer_row(128) == RowBytes{.data = Bytes{128}, .scales = Bytes{4}});
  CHECK(indexer_row(64) == RowBytes{.data = Bytes{64}, .scales = Bytes{4}});
  CHECK(indexer_row(256) == RowBytes{.data = Bytes{256}, .scales = Bytes{8}});
}

TEST_CASE("only fp4_mla keeps a tail beside the pages", "[core][kv_dtype]") {
  CHECK(latent_tail(KvDtype::kFp4Mla, 512, 64, 0) == Bytes{18'432});
  CHECK(latent_tail(KvDtype::kFp4Mla, 512, 64, 7) == Bytes{26'496});
  for (const KvDtype dtype : all_kv_dtypes()) {
    if (dtype != KvDtype::kFp4Mla) {
      INFO(to_string(dtype));
      CHECK(latent_tail(dtype, 512, 64, 7) == Bytes{0});
    }
  }
}

TEST_CASE("formats say what they are for", "[core][kv_dtype]") {
  CHECK(plain_element_bytes(KvDtype::kFp32) == Bytes{4});
  CHECK(plain_element_bytes(KvDtype::kBf16) == Bytes{2});
  CHECK(plain_element_bytes(KvDtype::kFp16) == Bytes{2});
  CHECK(plain_element_bytes(KvDtype::kFp8E4m3) == Bytes{1});
  CHECK(plain_element_bytes(KvDtype::kFp8E5m2) == Bytes{1});
  CHECK(plain_element_bytes(KvDtype::kInt8PerTokenHead) == std::nullopt);
  CHECK(plain_element_bytes(KvDtype::kNvfp4) == std::nullopt);
  for (const KvDtype dtype : all_kv_dtypes()) {
    INFO(to_string(dtype));
    CHECK(is_latent_only(dtype) == !key_value_row(dtype, 128).has_value());
  }
}

TEST_CASE("a row that does not fit into 64 bits is the largest number", "[core][kv_dtype]") {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  CHECK(key_value_row(KvDtype::kBf16, kMax) == row(kMax, 0));
  CHECK(latent_row(KvDtype::kFp8E4m3, kMax, kMax) == row(kMax, 0));
  CHECK(latent_row(KvDtype::kFp8DsMla, kMax, kMax) == row(kMax, 0));
  CHECK(latent_tail(KvDtype::kFp4Mla, kMax, kMax, kMax) == Bytes{kMax});
}

}  // namespace
}  // namespace kvpool
