// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/layout/page_geometry.hpp>

#include "support/catch.hpp"

namespace kvpool {
namespace {

LayerGroup key_value_group(int layers, std::int64_t heads, std::int64_t key_dim,
                           std::int64_t value_dim, KvDtype dtype) {
  LayerGroup group;
  for (int i = 0; i < layers; ++i) {
    group.layers.push_back({.layer = LayerIndex{i},
                            .kind = CacheKind::kKeyValue,
                            .dtype = dtype,
                            .kv_heads = Heads{heads},
                            .key_dim = key_dim,
                            .value_dim = value_dim});
  }
  return group;
}

LayerGroup latent_group(KvDtype dtype) {
  return {.layers = {{.kind = CacheKind::kLatent,
                      .dtype = dtype,
                      .kv_heads = Heads{1},
                      .key_dim = 512,
                      .value_dim = 64}}};
}

std::int64_t page_bytes(const LayerGroup& group, std::int64_t tokens) {
  const auto page = page_geometry(group, Tokens{tokens}, {});
  REQUIRE(page.has_value());
  return page->page_bytes.count();
}

TEST_CASE("the K3 drafter's page at TP16 is 81,920 bytes") {
  CHECK(page_bytes(key_value_group(5, 1, 64, 64, KvDtype::kBf16), 64) == 81'920);
}

TEST_CASE("K and V may differ in width") {
  // MiMo-V2-Flash: 4 heads, K 192, V 128.
  CHECK(page_bytes(key_value_group(1, 4, 192, 128, KvDtype::kBf16), 64) == 64 * 4 * 640);
}

TEST_CASE("latent records have their published sizes") {
  CHECK(page_bytes(latent_group(KvDtype::kBf16), 64) == 64 * 1152);
  CHECK(page_bytes(latent_group(KvDtype::kFp8E4m3), 64) == 64 * 576);
  CHECK(page_bytes(latent_group(KvDtype::kFp8DsMla), 64) == 64 * 656);
  CHECK(page_bytes(latent_group(KvDtype::kFp4Mla), 128) == 128 * 392);
}

TEST_CASE("fp4_mla has pages of 128 tokens only") {
  const auto page = page_geometry(latent_group(KvDtype::kFp4Mla), Tokens{64}, {});
  REQUIRE_FALSE(page.has_value());
  CHECK(page.error().code == ErrorCode::kUnsupported);
}

TEST_CASE("an indexer key is 132 bytes a token, its scales in a plane of their own") {
  LayerGroup group{.layers = {{.kind = CacheKind::kIndexer,
                               .dtype = KvDtype::kFp8E4m3,
                               .kv_heads = Heads{1},
                               .key_dim = 128}}};
  const auto page = page_geometry(group, Tokens{64}, {});
  REQUIRE(page.has_value());
  CHECK(page->page_bytes == Bytes{64 * 132});
  REQUIRE(page->planes.size() == 2);
  CHECK(page->planes[0].row_bytes == Bytes{128});
  CHECK(page->planes[1].offset == Bytes{64 * 128});
  CHECK(page->planes[1].row_bytes == Bytes{4});
}

TEST_CASE("nvfp4 stores half a byte an element and a scale per 16") {
  CHECK(page_bytes(key_value_group(1, 8, 128, 128, KvDtype::kNvfp4), 16) == 16 * 8 * 2 * 72);
}

TEST_CASE("scales per token and head add four bytes to each row") {
  CHECK(page_bytes(key_value_group(1, 8, 128, 128, KvDtype::kInt8PerTokenHead), 16) ==
        16 * 8 * (128 + 128 + 8));
}

TEST_CASE("rows start at multiples of 16 bytes, and the padding is charged") {
  // 36 fp8 elements: 36 bytes in a row of 48.
  const auto page = page_geometry(key_value_group(1, 1, 36, 36, KvDtype::kFp8E4m3), Tokens{16}, {});
  REQUIRE(page.has_value());
  CHECK(page->planes[0].row_bytes == Bytes{36});
  CHECK(page->planes[0].slot_stride == Bytes{48});
  CHECK(page->page_bytes == Bytes{2 * 16 * 48});
}

TEST_CASE("HND keeps the slots of a head together, NHD the heads of a slot") {
  const LayerGroup group = key_value_group(1, 4, 64, 64, KvDtype::kBf16);
  const auto hnd = page_geometry(group, Tokens{32}, {.rows = RowOrder::kHnd});
  const auto nhd = page_geometry(group, Tokens{32}, {.rows = RowOrder::kNhd});
  REQUIRE(hnd.has_value());
  REQUIRE(nhd.has_value());
  CHECK(hnd->page_bytes == nhd->page_bytes);
  CHECK(hnd->planes[0].slot_stride == Bytes{128});
  CHECK(hnd->planes[0].head_stride == Bytes{32 * 128});
  CHECK(nhd->planes[0].slot_stride == Bytes{4 * 128});
  CHECK(nhd->planes[0].head_stride == Bytes{128});
}

TEST_CASE("a state slot holds convolution and matrix state in their own types") {
  // One KDA layer of Kimi-K3 at TP16: 6912 bf16 and 98,304 fp32 elements.
  LayerGroup group{.is_state = true,
                   .layers = {{.kind = CacheKind::kState,
                               .dtype = KvDtype::kFp32,
                               .kv_heads = Heads{1},
                               .conv_elements = 6912,
                               .conv_dtype = KvDtype::kBf16,
                               .matrix_elements = 98'304}}};
  const auto slot = page_geometry(group, Tokens{0}, {});
  REQUIRE(slot.has_value());
  CHECK(slot->page_bytes == Bytes{13'824 + 393'216});
}

TEST_CASE("page sizes outside 1 to 65,536 tokens are refused") {
  const LayerGroup group = key_value_group(1, 1, 64, 64, KvDtype::kBf16);
  for (const std::int64_t tokens : {-1, 0, 65'537}) {
    const auto page = page_geometry(group, Tokens{tokens}, {});
    REQUIRE_FALSE(page.has_value());
    CHECK(page.error().key == "tokens_per_block");
  }
}

TEST_CASE("a page that does not fit into 64 bits is an error") {
  const LayerGroup group = key_value_group(1, std::int64_t{1} << 40, std::int64_t{1} << 20,
                                           std::int64_t{1} << 20, KvDtype::kBf16);
  const auto page = page_geometry(group, Tokens{65'536}, {});
  REQUIRE_FALSE(page.has_value());
  CHECK(page.error().code == ErrorCode::kOutOfRange);
}

}  // namespace
}  // namespace kvpool
