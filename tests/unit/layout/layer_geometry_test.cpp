// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/layout/layer_geometry.hpp>

#include "support/catch.hpp"

#include <vector>

namespace kvpool {
namespace {

std::vector<ModelLayer> one_layer(std::vector<LayerCache> caches) {
  return {ModelLayer{.caches = std::move(caches)}};
}

LayerGeometry only(const std::vector<ModelLayer>& layers, Parallelism parallelism,
                   CacheFormats formats) {
  const auto geometry = layer_geometry(layers, parallelism, formats);
  REQUIRE(geometry.has_value());
  REQUIRE(geometry->size() == 1);
  return geometry->front();
}

const AttentionCache kGqa{
    .query_heads = Heads{96}, .kv_heads = Heads{16}, .key_dim = 64, .value_dim = 64};
const LatentCache kMla{.query_heads = Heads{128}, .latent_dim = 512, .rope_dim = 64};

TEST_CASE("query and KV heads are those of one rank") {
  const LayerGeometry layer = only(one_layer({kGqa}), {.tensor = 16}, {});
  CHECK(layer.query_heads == Heads{6});
  CHECK(layer.kv_heads == Heads{1});
  CHECK(layer.kind == CacheKind::kKeyValue);
}

TEST_CASE("a latent and its indexer are replicated, never divided") {
  const auto geometry =
      layer_geometry(one_layer({kMla, IndexerCache{.key_dim = 128}}), {.tensor = 8}, {});
  REQUIRE(geometry.has_value());
  REQUIRE(geometry->size() == 2);
  CHECK((*geometry)[0].key_dim == 512);
  CHECK((*geometry)[0].value_dim == 64);
  CHECK((*geometry)[0].kv_heads == Heads{1});
  CHECK((*geometry)[1].kind == CacheKind::kIndexer);
}

TEST_CASE("an MLA-only format on keys and values per head is refused") {
  const auto geometry = layer_geometry(one_layer({kGqa}), {}, {.kv = KvDtype::kFp8DsMla});
  REQUIRE_FALSE(geometry.has_value());
  CHECK(geometry.error().code == ErrorCode::kUnsupported);
  CHECK(geometry.error().key == "kv_cache_dtype");
}

TEST_CASE("fp4_mla keeps a tail per sequence beside its pages") {
  const auto geometry =
      layer_geometry(one_layer({kMla}), {}, {.kv = KvDtype::kFp4Mla, .max_rewind = 7});
  REQUIRE(geometry.has_value());
  REQUIRE(geometry->size() == 2);
  CHECK((*geometry)[1].kind == CacheKind::kLatentTail);
  // (16 + 7) tokens of 576 elements of 2 bytes.
  CHECK((*geometry)[1].tail_bytes == Bytes{26496});
}

TEST_CASE("a recurrent state is divided by tensor parallelism") {
  // Kimi delta attention: 96 heads of 128, kernel 4.
  const StateCache kda{.family = StateFamily::kKimiDelta,
                       .conv_channels = 36864,
                       .conv_kernel = 4,
                       .matrix_elements = 1572864,
                       .heads = 96};
  const LayerGeometry layer = only(one_layer({kda}), {.tensor = 16}, {});
  CHECK(layer.conv_elements == 6912);
  CHECK(layer.matrix_elements == 98304);
  CHECK(layer.conv_dtype == KvDtype::kBf16);
  CHECK(layer.dtype == KvDtype::kFp32);
}

TEST_CASE("Mamba-2 groups that TP does not divide are replicated") {
  // 128 heads of 64, 8 groups of state 128: C = 8192 + 2 * 8 * 128, M = 128 * 64 * 128.
  const StateCache mamba{.family = StateFamily::kMamba2,
                         .conv_channels = 10240,
                         .conv_kernel = 4,
                         .matrix_elements = 1048576,
                         .heads = 128,
                         .groups = 8,
                         .channels_per_group = 256};
  CHECK(only(one_layer({mamba}), {.tensor = 8}, {}).conv_elements == (1024 + 256) * 3);
  CHECK(only(one_layer({mamba}), {.tensor = 16}, {}).conv_elements == (512 + 256) * 3);
}

TEST_CASE("TP that does not divide the heads of a state is refused by name") {
  const StateCache kda{.family = StateFamily::kKimiDelta,
                       .conv_channels = 36864,
                       .conv_kernel = 4,
                       .matrix_elements = 1572864,
                       .heads = 96};
  const auto geometry = layer_geometry(one_layer({kda}), {.tensor = 5}, {});
  REQUIRE_FALSE(geometry.has_value());
  CHECK(geometry.error().key == "tensor_parallel_size");
  CHECK_THAT(geometry.error().message, Catch::Matchers::ContainsSubstring("kimi_delta"));
}

TEST_CASE("a state's own types win over the pool's") {
  const StateCache mamba{.conv_channels = 8,
                         .conv_kernel = 4,
                         .matrix_elements = 8,
                         .heads = 8,
                         .conv_dtype = KvDtype::kFp16,
                         .matrix_dtype = KvDtype::kBf16};
  const LayerGeometry layer = only(one_layer({mamba}), {}, {});
  CHECK(layer.conv_dtype == KvDtype::kFp16);
  CHECK(layer.dtype == KvDtype::kBf16);
}

}  // namespace
}  // namespace kvpool
