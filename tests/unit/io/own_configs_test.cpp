// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// What every config of tests/data/configs parses to. compact_model.hpp explains the strings.
#include <kvpool/io/model_config_io.hpp>

#include "compact_model.hpp"
#include "support/catch.hpp"

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace kvpool {
namespace {

const std::map<std::string, std::string> kExpected{
    {"deepseek-v3.2", "61xMLA512+64+I128 | q128 bf16 max163840 mtp1xMLA512+64+I128"},
    {"deepseek-v3", "61xMLA512+64 | q128 bf16 max163840 mtp1xMLA512+64"},
    {"deepseek-v4-flash", "refused: compress_ratios"},
    {"dflash-4-sliding-1-full",
     "4xGQA8x128w2048 1xGQA8x128 | q32 bf16 max262144 drafter:dflash/16"},
    {"dflash-5-full", "5xGQA8x128 | q32 bf16 max40960 drafter:dflash/16"},
    {"domino-5-full", "5xGQA8x128 | q32 bf16 max262144 drafter:domino/16"},
    {"dspark-k3-64x16", "5xGQA16x64 | q64 bf16 max65536 drafter:dspark/7"},
    {"dspark-k3-96x16", "5xGQA16x64 | q96 bf16 max1048576 drafter:dspark/7"},
    {"dspark-mla-5x576", "5xMLA512+64 | q96 bf16 max1048576 drafter:dspark/7"},
    {"eagle3-llama-8b", "1xGQA8x128 | q32 fp16 max2048 drafter:eagle3/0"},
    {"eagle3-window-off", "1xGQA4x128 | q28 bf16 max32768 drafter:eagle3/0"},
    {"gemma-2-9b", "21xGQA8x256w4096 21xGQA8x256 | q16 bf16 max8192"},
    {"gemma-3-27b", "52xGQA16x128w1024 10xGQA16x128 | q32 bf16 max131072"},
    {"gemma-4-26b", "25xGQA8x256w1024 5xGQA2x512 | q16 bf16 max262144"},
    {"gemma-4-e4b", "20xGQA2x256w512 4xGQA2x512 15xshared:22 3xshared:23 | q8 bf16 max131072"},
    {"glm-5.2", "21xMLA512+64+I128 57xMLA512+64 | q64 bf16 max1048576 mtp1xMLA512+64+I128"},
    {"glm-5", "78xMLA512+64+I128 | q64 bf16 max202752 mtp1xMLA512+64+I128"},
    {"gpt-oss-120b", "18xGQA8x64w128 18xGQA8x64 | q64 max131072"},
    {"gpt-oss-20b", "12xGQA8x64w128 12xGQA8x64 | q64 max131072"},
    {"gpt2", "12xGQA12x64 | q12 max1024"},
    {"granite-4-h-small", "36xM2(C8448 K4 M1048576 H128 G1x256) 4xGQA8x128 | q32 bf16 max131072"},
    {"kimi-k2", "61xMLA512+64 | q64 bf16 max131072"},
    {"kimi-k3", "69xKDA(C36864 K4 M1572864 H96) 24xMLA512+64 | q96 bf16 max1048576"},
    {"kimi-linear-48b", "20xKDA(C12288 K4 M524288 H32) 7xMLA512+64 | q32 bf16 max1048576"},
    {"lfm2-1.2b", "10xconv(C2048 K3 M0 H0) 6xGQA8x64 | q32 bf16 max128000"},
    {"llama-3.1-70b", "80xGQA8x128 | q64 bf16 max131072"},
    {"llama-3.1-8b", "32xGQA8x128 | q32 bf16 max131072"},
    {"llama-4-scout", "36xGQA8x128c8192 12xGQA8x128 | q40 bf16 max10485760"},
    {"mimo-v2-flash", "9xGQA4x192/128 39xGQA8x192/128w128 | q64 bf16 max262144"},
    {"minimax-m2", "62xGQA8x128 | q48 bf16 max196608 mtp3xGQA8x128"},
    {"mistral-7b-v0.1", "32xGQA8x128w4096 | q32 bf16 max32768"},
    {"mixtral-8x7b", "32xGQA8x128 | q32 bf16 max32768"},
    {"nemotron-3-super",
     "40xM2(C10240 K4 M1048576 H128 G8x256 fp32) 40xnone 8xGQA2x128 | q32 bf16 max262144 "
     "mtp1xGQA2x128"},
    {"nemotron-h-56b",
     "54xM2(C20480 K4 M4194304 H256 G8x512) 54xnone 10xGQA8x128 | q64 bf16 max8192"},
    {"nemotron-nas-12", "5xGQA4x128 4xnone 3xGQA8x128 | q64 bf16 max131072"},
    {"opt-125m", "12xGQA12x64 | q12 fp16 max2048"},
    {"peagle-4", "4xGQA8x128 | q32 bf16 max40960 drafter:peagle/0"},
    {"qwen2-window-on", "20xGQA4x128 8xGQA4x128w4096 | q28 bf16 max32768"},
    {"qwen2.5-7b", "28xGQA4x128 | q28 bf16 max32768"},
    {"qwen3-235b", "94xGQA4x128 | q64 bf16 max40960"},
    {"qwen3-8b", "36xGQA8x128 | q32 bf16 max40960"},
    {"qwen3-next-80b", "36xGDN(C8192 K4 M524288 H32) 12xGQA2x256 | q16 bf16 max262144"},
    {"qwen3.5-27b",
     "48xGDN(C10240 K4 M786432 H48 fp32) 16xGQA4x256 | q24 bf16 max262144 mtp1xGQA4x256"},
    {"whisper-large-v3", "32xGQA20x64+GQA20x64x1500 | q20 fp16 max448"},
};

std::string path_of(const std::string& name) {
  return std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs/" + name + ".json";
}

}  // namespace

TEST_CASE("every own config parses to its layers") {
  for (const auto& [name, expected] : kExpected) {
    INFO(name);
    CHECK(test::compact(io::read_model_config(path_of(name))) == expected);
  }
}

TEST_CASE("every own config is in the table") {
  std::set<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator{path_of("x").substr(0, path_of("x").rfind('/'))}) {
    files.insert(entry.path().stem().string());
  }
  std::set<std::string> names;
  for (const auto& [name, expected] : kExpected) {
    names.insert(name);
  }
  CHECK(files == names);
}

TEST_CASE("the example configs are the ones that are tested") {
  const std::string examples = std::string{KVPOOL_SOURCE_DIR} + "/examples/configs/";
  const auto same = [&examples](const std::string& example, const std::string& own) {
    auto a = io::read_model_config(examples + example + ".json");
    auto b = io::read_model_config(path_of(own));
    REQUIRE(a.has_value());
    REQUIRE(b.has_value());
    a->name = b->name;
    CHECK(*a == *b);
  };
  same("kimi-k3", "kimi-k3");
  same("kimi-k3-dspark-96x16", "dspark-k3-96x16");
}

// Bytes of one token in 16 bit, from the parsed layers: 2 a latent or K/V element, and d + 4 d/128
// for an indexer key. Written out here, without the project's own arithmetic.
TEST_CASE("parsed layers give the per-token figures that engines print") {
  const auto bytes_per_token = [](const std::string& name) {
    const auto model = io::read_model_config(path_of(name));
    REQUIRE(model.has_value());
    std::int64_t sum = 0;
    for (const ModelLayer& layer : model->layers) {
      for (const LayerCache& cache : layer.caches) {
        if (const auto* latent = std::get_if<LatentCache>(&cache)) {
          sum += 2 * (latent->latent_dim + latent->rope_dim);
        } else if (const auto* indexer = std::get_if<IndexerCache>(&cache)) {
          sum += indexer->key_dim + 4 * (indexer->key_dim / 128);
        } else if (const auto* a = std::get_if<AttentionCache>(&cache)) {
          sum += 2 * a->kv_heads.count() * (a->key_dim + a->value_dim);
        }
      }
    }
    return sum;
  };
  CHECK(bytes_per_token("kimi-k3") == 27'648);
  CHECK(bytes_per_token("glm-5") == 100'152);
  CHECK(bytes_per_token("deepseek-v3") == 70'272);
  CHECK(bytes_per_token("deepseek-v3.2") == 78'324);
  CHECK(bytes_per_token("llama-3.1-70b") == 327'680);
  CHECK(bytes_per_token("dspark-k3-96x16") == 20'480);
  CHECK(bytes_per_token("dspark-mla-5x576") == 5'760);
}

}  // namespace kvpool
