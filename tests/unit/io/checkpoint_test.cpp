// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/checkpoint.hpp>

#include <kvpool/plan/stored_share.hpp>

#include "support/catch.hpp"
#include "support/safetensors_files.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace kvpool {
namespace {

using testing_support::bytes_of;
using testing_support::ScratchFolder;
using testing_support::TensorToWrite;
using Tensors = std::vector<TensorToWrite>;

/// Hidden size 64, 4 query and 2 KV heads of 16, MLP of 128, 256 tokens, 2 layers.
constexpr const char* kLlama =
    R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,)"
    R"("num_key_value_heads":2,"head_dim":16,"intermediate_size":128,"vocab_size":256,)"
    R"("torch_dtype":"bfloat16","max_position_embeddings":4096)";

std::string llama(const std::string& more = {}) { return std::string{kLlama} + more + "}"; }

/// Attention of a layer in bf16: 24,576 bytes.
Tensors attention(const std::string& layer) {
  return {{layer + "self_attn.q_proj.weight", "BF16", {64, 64}, 8192},
          {layer + "self_attn.k_proj.weight", "BF16", {32, 64}, 4096},
          {layer + "self_attn.v_proj.weight", "BF16", {32, 64}, 4096},
          {layer + "self_attn.o_proj.weight", "BF16", {64, 64}, 8192}};
}

void append(Tensors& to, const Tensors& from) { to.insert(to.end(), from.begin(), from.end()); }

/// A layer in bf16: 73,984 bytes.
Tensors layer(std::int64_t index) {
  const std::string name = "model.layers." + std::to_string(index) + ".";
  Tensors all = attention(name);
  append(all, {{name + "mlp.gate_proj.weight", "BF16", {128, 64}, 16384},
               {name + "mlp.up_proj.weight", "BF16", {128, 64}, 16384},
               {name + "mlp.down_proj.weight", "BF16", {64, 128}, 16384},
               {name + "input_layernorm.weight", "BF16", {64}, 128},
               {name + "post_attention_layernorm.weight", "BF16", {64}, 128}});
  return all;
}

Tensors whole_llama(bool head = true) {
  Tensors all{{"model.embed_tokens.weight", "BF16", {256, 64}, 32768}};
  append(all, layer(0));
  append(all, layer(1));
  append(all, {{"model.norm.weight", "BF16", {64}, 128}});
  if (head) {
    append(all, {{"lm_head.weight", "BF16", {256, 64}, 32768}});
  }
  return all;
}

ModelConfig read(const ScratchFolder& folder) {
  auto model = io::read_checkpoint(folder.path());
  if (!model.has_value()) {
    FAIL(to_string(model.error()));
  }
  REQUIRE(model->weights.has_value());
  return *std::move(model);
}

ModelConfig read(const std::string& config, const Tensors& tensors) {
  const ScratchFolder folder{"checkpoint"};
  folder.write("config.json", config);
  folder.write_tensors("model.safetensors", tensors);
  return read(folder);
}

StoredShare share(const ModelConfig& model, const Parallelism& parallelism, bool mtp = false) {
  return heaviest_share(*model.weights, static_cast<std::int64_t>(model.layers.size()), parallelism,
                        mtp);
}

std::int64_t bytes(const ModelConfig& model, const Parallelism& parallelism, bool mtp = false) {
  const StoredShare found = share(model, parallelism, mtp);
  CHECK(found.low == found.bytes);
  CHECK(found.high == found.bytes);
  return found.bytes.count();
}

TEST_CASE("weights of a plain model divide over tensor ranks by whole heads and rows", "[io]") {
  const ModelConfig model = read(llama(), whole_llama());
  CHECK(model.weights->tensors == 21);
  CHECK(model.weights->files == 1);
  CHECK(model.weights->stored == Bytes{213'632});
  CHECK(model.weights->unused == Bytes{0});
  CHECK(model.weights->unknown_names.empty());
  CHECK(bytes(model, {}) == 213'632);
  CHECK(bytes(model, {.tensor = 2}) == 107'136);
  // Four ranks and two KV heads: each rank has one of them.
  CHECK(bytes(model, {.tensor = 4}) == 57'984);
  // Attention whole: 2 x (24,576 + 24,576 + 256) + 2 x 16,384 + 128.
  CHECK(bytes(model, {.tensor = 2, .attention_data_parallel = true}) == 131'712);
}

TEST_CASE("a number that no layer can have is none", "[io]") {
  Tensors tensors = whole_llama();
  tensors.push_back({"mtp.layers.9223372036854775807.x", "BF16", {2, 2}, 8});
  tensors.push_back({"mtp.layers.99999.y", "BF16", {2, 4}, 16});
  const ModelConfig model = read(llama(), tensors);
  std::int64_t next_token = 0;
  for (const WeightPart& part : model.weights->parts) {
    CHECK(part.layer >= 0);
    CHECK(part.layer <= 100'000);
    next_token += part.place == WeightPlace::kNextToken ? 1 : 0;
  }
  CHECK(next_token == 2);
}

TEST_CASE("pipeline stages load their layers, the first the table, the last the head", "[io]") {
  const ModelConfig model = read(llama(), whole_llama());
  const auto stages = stored_shares(*model.weights, 2, {.pipeline = 2}, false);
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].bytes == Bytes{106'752});
  CHECK(stages[1].bytes == Bytes{106'880});
  CHECK(share(model, {.pipeline = 2}).stage == 1);
}

TEST_CASE("a tied head is not loaded, and a last stage has the table, too", "[io]") {
  const ModelConfig without = read(llama(), whole_llama(false));
  CHECK(without.weights->tied_embeddings);
  CHECK(bytes(without, {}) == 180'864);
  CHECK(bytes(without, {.pipeline = 2}) == 106'880);
  const ModelConfig beside = read(llama(R"(,"tie_word_embeddings":true)"), whole_llama());
  CHECK(beside.weights->unused == Bytes{32'768});
  CHECK(beside.weights->stored == Bytes{213'632});
  CHECK(bytes(beside, {}) == 180'864);
}

TEST_CASE("routed experts go whole to expert ranks, and over what tensor ranks are left", "[io]") {
  const std::string config =
      llama(R"(,"architectures":["Qwen3MoeForCausalLM"],"num_experts":3,"num_experts_per_tok":2,)"
            R"("moe_intermediate_size":32)");
  Tensors tensors;
  for (const std::string name : {"model.layers.0.", "model.layers.1."}) {
    append(tensors, attention(name));
    append(tensors, {{name + "mlp.gate.weight", "BF16", {3, 64}, 384}});
    for (int expert = 0; expert < 3; ++expert) {
      const std::string prefix = name + "mlp.experts." + std::to_string(expert) + ".";
      append(tensors, {{prefix + "gate_proj.weight", "BF16", {32, 64}, 4096},
                       {prefix + "up_proj.weight", "BF16", {32, 64}, 4096},
                       {prefix + "down_proj.weight", "BF16", {64, 32}, 4096}});
    }
  }
  const ModelConfig model = read(config, tensors);
  const std::int64_t rest = 2 * 384;
  CHECK(bytes(model, {}) == 2 * (24'576 + 3 * 12'288) + rest);
  CHECK(bytes(model, {.tensor = 2}) == 2 * (12'288 + 3 * 6'144) + rest);
  // Of three experts the fuller of two ranks has two.
  CHECK(bytes(model, {.tensor = 2, .expert = 2}) == 2 * (12'288 + 2 * 12'288) + rest);
  // One KV head of two on each of four ranks: 2,048 + 2 x 2,048 + 2,048.
  CHECK(bytes(model, {.tensor = 4, .expert = 2}) == 2 * (8'192 + 2 * 6'144) + rest);
}

TEST_CASE("experts stored together divide by their first extent", "[io]") {
  const ModelConfig model =
      read(llama(), {{"model.layers.0.mlp.experts.gate_up_proj_blocks", "U8", {4, 64, 2, 16}, 8192},
                     {"model.layers.0.mlp.experts.gate_up_proj_scales", "U8", {4, 64, 2}, 512},
                     {"model.layers.0.mlp.experts.down_proj_bias", "BF16", {4, 64}, 512},
                     {"model.layers.0.mlp.router.weight", "BF16", {4, 64}, 512},
                     {"model.layers.0.self_attn.sinks", "BF16", {4}, 8}});
  CHECK(bytes(model, {}) == 9'736);
  CHECK(bytes(model, {.tensor = 2, .expert = 2}) == 4'096 + 256 + 256 + 512 + 4);
}

TEST_CASE("quantised and packed matrices divide like what they stand for", "[io]") {
  const std::string mlp = "model.layers.0.mlp.";
  SECTION("fp8 with block scales") {
    const ModelConfig model =
        read(llama(), {{mlp + "gate_proj.weight", "F8_E4M3", {256, 128}, 32768},
                       {mlp + "gate_proj.weight_scale_inv", "F32", {2, 1}, 8},
                       {mlp + "down_proj.weight", "F8_E4M3", {128, 256}, 32768},
                       {mlp + "down_proj.weight_scale_inv", "F32", {1, 2}, 8}});
    CHECK(bytes(model, {}) == 65'552);
    CHECK(bytes(model, {.tensor = 2}) == 2 * (16'384 + 4));
  }
  SECTION("nvfp4 with its three scales") {
    const ModelConfig model =
        read(llama(), {{mlp + "down_proj.weight", "U8", {64, 64}, 4096},
                       {mlp + "down_proj.weight_scale", "F8_E4M3", {64, 8}, 512},
                       {mlp + "down_proj.weight_scale_2", "F32", {}, 4},
                       {mlp + "down_proj.input_scale", "F32", {}, 4}});
    CHECK(bytes(model, {.tensor = 2}) == 2048 + 256 + 4 + 4);
  }
  SECTION("a scale per output stays whole where inputs are divided") {
    const ModelConfig model =
        read(llama(), {{mlp + "down_proj.weight", "I8", {64, 128}, 8192},
                       {mlp + "down_proj.weight_scale", "BF16", {64, 1}, 128},
                       {mlp + "up_proj.weight", "I8", {128, 64}, 8192},
                       {mlp + "up_proj.weight_scale", "BF16", {128, 1}, 256}});
    CHECK(bytes(model, {.tensor = 2}) == 4096 + 128 + 4096 + 128);
  }
  SECTION("four bits packed along inputs") {
    const ModelConfig model = read(llama(), {{mlp + "down_proj.qweight", "I32", {16, 64}, 4096},
                                             {mlp + "down_proj.qzeros", "I32", {1, 8}, 32},
                                             {mlp + "down_proj.scales", "F16", {1, 64}, 128},
                                             {mlp + "down_proj.g_idx", "I32", {128}, 512}});
    CHECK(bytes(model, {.tensor = 2}) == 2048 + 32 + 128 + 256);
  }
}

TEST_CASE("latent attention: down-projections and indexers are whole, the rest by heads", "[io]") {
  const std::string config =
      R"({"model_type":"deepseek_v3","num_hidden_layers":1,"hidden_size":64,)"
      R"("num_attention_heads":4,"num_key_value_heads":4,"kv_lora_rank":32,"qk_rope_head_dim":8,)"
      R"("q_lora_rank":16,"qk_nope_head_dim":16,"v_head_dim":16,"intermediate_size":128,)"
      R"("vocab_size":256,"torch_dtype":"bfloat16","num_nextn_predict_layers":1})";
  const std::string attention_of = "model.layers.0.self_attn.";
  Tensors tensors{{attention_of + "q_a_proj.weight", "BF16", {16, 64}, 2048},
                  {attention_of + "q_a_layernorm.weight", "BF16", {16}, 32},
                  {attention_of + "q_b_proj.weight", "BF16", {96, 16}, 3072},
                  {attention_of + "kv_a_proj_with_mqa.weight", "BF16", {40, 64}, 5120},
                  {attention_of + "kv_b_proj.weight", "BF16", {128, 32}, 8192},
                  {attention_of + "o_proj.weight", "BF16", {64, 64}, 8192},
                  {attention_of + "indexer.wq_b.weight", "BF16", {32, 16}, 1024}};
  append(tensors, {{"model.layers.1.eh_proj.weight", "BF16", {64, 128}, 16384},
                   {"model.layers.1.shared_head.head.weight", "BF16", {256, 64}, 32768}});
  const ModelConfig model = read(config, tensors);
  const std::int64_t whole = 2048 + 32 + 5120 + 1024;
  CHECK(bytes(model, {}) == whole + 3072 + 8192 + 8192);
  CHECK(bytes(model, {.tensor = 4}) == whole + (3072 + 8192 + 8192) / 4);
  // Next-token layers are loaded only where something drafts with them.
  CHECK(bytes(model, {}, true) == whole + 3072 + 8192 + 8192 + 16'384 + 32'768);
}

TEST_CASE("queries, keys and values in one matrix divide by their own heads", "[io]") {
  const ModelConfig model =
      read(llama(), {{"model.layers.0.self_attn.qkv_proj.weight", "BF16", {128, 64}, 16384},
                     {"model.layers.0.mlp.gate_up_proj.weight", "BF16", {256, 64}, 32768}});
  CHECK(bytes(model, {.tensor = 2}) == 24'576);
  // 8,192 of queries over four; 8,192 of keys and values over two heads.
  CHECK(bytes(model, {.tensor = 4}) == 2048 + 4096 + 8192);
}

TEST_CASE("what engines divide differently is a range", "[io]") {
  const ModelConfig model =
      read(llama(), {{"model.embed_tokens.weight", "BF16", {100, 64}, 12800},
                     {"visual.blocks.0.attn.qkv.weight", "BF16", {96, 32}, 6144},
                     {"model.layers.0.strange.weight", "BF16", {64, 64}, 8192}});
  CHECK(model.weights->unknown_names == std::vector<std::string>{"model.layers.0.strange.weight"});
  const StoredShare found = share(model, {.tensor = 2});
  CHECK(found.bytes == Bytes{6400 + 6144 + 8192});
  CHECK(found.low == Bytes{6400 + 3072 + 4096});
  CHECK(found.high == Bytes{8192 + 6144 + 8192});  // 100 rows filled up to 128
}

TEST_CASE("matrices in 32 bits are loaded in the model's own 16, scales and factors as stored",
          "[io]") {
  const ModelConfig model =
      read(llama(), {{"model.layers.0.mlp.up_proj.weight", "F32", {128, 64}, 32768},
                     {"model.layers.0.mlp.gate.weight", "F32", {4, 64}, 1024},
                     {"model.layers.0.mlp.gate.e_score_correction_bias", "F32", {4}, 16},
                     {"model.layers.0.mlp.up_proj.weight_scale_inv", "F32", {4, 2}, 32}});
  CHECK(model.weights->stored == Bytes{33'840});
  CHECK(bytes(model, {}) == 16'384 + 1024 + 16 + 32);
}

TEST_CASE("an index names the files, and is held to them", "[io]") {
  const ScratchFolder folder{"index"};
  folder.write("config.json", llama());
  Tensors first = whole_llama(false);
  folder.write_tensors("model-00001-of-00002.safetensors", first);
  folder.write_tensors("model-00002-of-00002.safetensors",
                       {{"lm_head.weight", "BF16", {256, 64}, 32768}});
  folder.write_tensors("leftover.safetensors", {{"x", "BF16", {64, 64}, 8192}});
  const auto index = [&folder](const std::string& entry) {
    folder.write("model.safetensors.index.json",
                 R"({"metadata":{"total_size":213632},"weight_map":{)"
                 R"("model.norm.weight":"model-00001-of-00002.safetensors",)" +
                     entry + "}}");
  };
  index(R"("lm_head.weight":"model-00002-of-00002.safetensors")");
  const ModelConfig model = read(folder);
  CHECK(model.weights->files == 2);
  CHECK(model.weights->stored == Bytes{213'632});
  const auto error = [&folder] {
    const auto failed = io::read_checkpoint(folder.path());
    REQUIRE(!failed.has_value());
    return failed.error();
  };
  index(R"("lm_head.weight":"model-00003-of-00002.safetensors")");
  CHECK(error().code == ErrorCode::kNotFound);
  CHECK_THAT(error().message, Catch::Contains("download complete"));
  index(R"("lm_head.weight":"../model-00002-of-00002.safetensors")");
  CHECK(error().key == "weight_map.lm_head.weight");
  index(R"("lm_head.weight":"/etc/passwd")");
  CHECK(error().code == ErrorCode::kInvalidArgument);
  index(R"("other.weight":"model-00002-of-00002.safetensors")");
  CHECK(error().key == "weight_map.other.weight");
  CHECK_THAT(error().message, Catch::Contains("does not have this tensor"));
  folder.write("model.safetensors.index.json", R"({"weight_map":[]})");
  CHECK(error().key == "weight_map");
}

TEST_CASE("a config without safetensors keeps its estimate", "[io]") {
  const ScratchFolder folder{"none"};
  folder.write("config.json", llama());
  const auto by_folder = io::read_checkpoint(folder.path());
  REQUIRE(by_folder.has_value());
  CHECK(!by_folder->weights.has_value());
  folder.write_tensors("model.safetensors", whole_llama());
  folder.write("other.json", llama());
  CHECK(io::read_checkpoint(folder.path("config.json"))->weights.has_value());
  CHECK(!io::read_checkpoint(folder.path("other.json"))->weights.has_value());
}

TEST_CASE("a drafter's own files are its weights", "[io]") {
  const ScratchFolder folder{"eagle"};
  folder.write("config.json",
               R"({"architectures":["LlamaForCausalLMEagle3"],"model_type":"llama",)"
               R"("num_hidden_layers":1,"hidden_size":64,"num_attention_heads":4,)"
               R"("num_key_value_heads":2,"head_dim":16,"intermediate_size":128,"vocab_size":256,)"
               R"("draft_vocab_size":128,"torch_dtype":"bfloat16"})");
  folder.write_tensors("model.safetensors",
                       {{"midlayer.self_attn.q_proj.weight", "BF16", {64, 128}, 16384},
                        {"fc.weight", "BF16", {64, 192}, 24576},
                        {"lm_head.weight", "BF16", {128, 64}, 16384},
                        {"norm.weight", "BF16", {64}, 128},
                        {"d2t", "I64", {128}, 1024},
                        {"t2d", "BOOL", {256}, 256}});
  const ModelConfig model = read(folder);
  CHECK(model.weights->unused == Bytes{256});
  CHECK(bytes(model, {.tensor = 2}) == 8192 + 24'576 + 8192 + 128 + 1024);
}

}  // namespace
}  // namespace kvpool
