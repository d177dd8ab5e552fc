// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// One test per rule that turns config keys into layers, and one per refusal.
#include <kvpool/io/model_config_io.hpp>

#include "compact_model.hpp"
#include "support/catch.hpp"

#include <string>

namespace kvpool {
namespace {

// A small plain model of `layers` layers with more members added.
std::string config(int layers, const std::string& more) {
  return R"({"model_type": "test", "num_hidden_layers": )" + std::to_string(layers) +
         R"(, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2)" +
         (more.empty() ? "" : ", " + more) + "}";
}

std::string layers_of(int layers, const std::string& more) {
  const std::string all = test::compact(io::parse_model_config(config(layers, more), "test.json"));
  return all.substr(0, all.find(" |"));
}

Error refusal(int layers, const std::string& more) {
  const auto result = io::parse_model_config(config(layers, more), "test.json");
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().file == "test.json");
  CHECK_FALSE(result.error().message.empty());
  return result.error();
}

}  // namespace

TEST_CASE("without pattern or window every layer is full") {
  CHECK(layers_of(4, "") == "4xGQA2x64");
  CHECK(layers_of(4, R"("sliding_window": null)") == "4xGQA2x64");
  CHECK(layers_of(4, R"("head_dim": 96, "v_head_dim": 32)") == "4xGQA2x96/32");
}

TEST_CASE("KV heads follow from the keys of several families") {
  const std::string base =
      R"({"num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8)";
  const auto heads = [&base](const std::string& more) {
    const std::string all = test::compact(io::parse_model_config(base + more + "}", "t.json"));
    return all.substr(0, all.find(" |"));
  };
  CHECK(heads("") == "2xGQA8x64");
  CHECK(heads(R"(, "num_key_value_heads": null)") == "2xGQA8x64");
  CHECK(heads(R"(, "multi_query": true, "num_kv_heads": 8)") == "2xGQA1x64");
  CHECK(heads(R"(, "multi_query": true, "new_decoder_architecture": true, "num_kv_heads": 4)") ==
        "2xGQA4x64");
  CHECK(heads(R"(, "multi_query_attention": true, "multi_query_group_num": 2)") == "2xGQA2x64");
  CHECK(heads(R"(, "num_key_value_heads": [4, 2])") == "1xGQA4x64 1xGQA2x64");
  CHECK(heads(R"(, "num_key_value_heads": [4])") == "refused: num_key_value_heads");
  CHECK(heads(R"(, "num_key_value_heads": 3)") == "refused: num_key_value_heads");
}

TEST_CASE("rule 1: hybrid_override_pattern names layers by letter") {
  const std::string mamba =
      R"("mamba_num_heads": 4, "mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 16,
         "conv_kernel": 4, )";
  CHECK(layers_of(5, mamba + R"("hybrid_override_pattern": "M-M*E")") ==
        "2xM2(C96 K4 M512 H4 G2x32) 2xnone 1xGQA2x64");
  CHECK(refusal(5, mamba + R"("hybrid_override_pattern": "M-M*")").key ==
        "hybrid_override_pattern");
  CHECK(refusal(4, mamba + R"("hybrid_override_pattern": "M-D*")").value == "D");
  CHECK(refusal(2, R"("hybrid_override_pattern": "M*")").key == "mamba_num_heads");
}

TEST_CASE("rule 2: linear_attn_config lists attention layers from 1") {
  const std::string sizes =
      R"("num_heads": 4, "head_dim": 8, "short_conv_kernel_size": 4, "full_attn_layers": )";
  CHECK(layers_of(3, R"("linear_attn_config": {)" + sizes + "[3]}") ==
        "2xKDA(C96 K4 M256 H4) 1xGQA2x64");
  CHECK(layers_of(3, R"("linear_attn_config": {)" + sizes + R"([2], "kda_layers": [1, 3]})") ==
        "2xKDA(C96 K4 M256 H4) 1xGQA2x64");
  CHECK(refusal(3, R"("linear_attn_config": {)" + sizes + "[4]}").key ==
        "linear_attn_config.full_attn_layers[0]");
  CHECK(refusal(3, R"("linear_attn_config": {)" + sizes + "[0]}").value == "0");
  CHECK(refusal(3, R"("linear_attn_config": {)" + sizes + R"([2], "kda_layers": [1]})").key ==
        "linear_attn_config.kda_layers");
  CHECK(refusal(3, R"("linear_attn_config": {"num_heads": 4})").key ==
        "linear_attn_config.full_attn_layers");
}

TEST_CASE("rule 3: hybrid_layer_pattern, with sizes of sliding layers") {
  CHECK(layers_of(3, R"("hybrid_layer_pattern": [0, 1, 1], "sliding_window": 64,
                        "attention_chunk_size": 64, "swa_num_key_value_heads": 4,
                        "swa_head_dim": 96, "swa_v_head_dim": 48)") == "1xGQA2x64 2xGQA4x96/48w64");
  CHECK(refusal(3, R"("hybrid_layer_pattern": [0, 1, 1])").key == "sliding_window");
  CHECK(refusal(3, R"("hybrid_layer_pattern": [0, 2, 1])").key == "hybrid_layer_pattern[1]");
}

TEST_CASE("rule 4: block_configs give no-op layers and heads per layer") {
  CHECK(layers_of(3, R"("block_configs": [{"attention": {"n_heads_in_group": 8}},
        {"attention": {"no_op": true, "n_heads_in_group": null}},
        {"attention": {"replace_with_linear": true}}])") == "1xGQA1x64 2xnone");
  CHECK(refusal(1, R"("block_configs": [{"attention": {}}])").key ==
        "block_configs[0].attention.n_heads_in_group");
  CHECK(refusal(1, R"("block_configs": [{"attention": {"n_heads_in_group": 3}}])").value == "3");
  CHECK(refusal(1, R"("block_configs": [{"ffn": {}}])").key == "block_configs[0].attention");
  CHECK(refusal(1, R"("block_configs": [{"attention": {"n_heads_in_group": 8,
                      "window_length": 128}}])")
            .code == ErrorCode::kUnsupported);
}

TEST_CASE("rule 5: layer_types in every spelling") {
  const std::string window = R"("sliding_window": 32, "attention_chunk_size": 128, )";
  CHECK(layers_of(5, window + R"("layer_types": ["full_attention", "attention", "full", "global",
                                 "global_attention"])") == "5xGQA2x64");
  CHECK(layers_of(5, window + R"("layer_types": ["sliding_attention", "sliding_window_attention",
                                 "sliding", "local_attention", "local"])") == "5xGQA2x64w32");
  CHECK(layers_of(2, window + R"("layer_types": ["chunked_attention", "mlp"])") ==
        "1xGQA2x64c128 1xnone");
  CHECK(layers_of(2, R"("layer_types": ["conv", "full_attention"], "conv_L_cache": 3)") ==
        "1xconv(C512 K3 M0 H0) 1xGQA2x64");
  CHECK(layers_of(2, R"("full_attn_idxs": [1], "conv_L_cache": 3)") ==
        "1xconv(C512 K3 M0 H0) 1xGQA2x64");
  CHECK(layers_of(2, R"("layers_block_type": ["attention", "moe"])") == "1xGQA2x64 1xnone");
  CHECK(layers_of(2, R"("layer_types": ["mamba", "attention"], "mamba_n_heads": 4,
                        "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 16,
                        "mamba_d_conv": 4, "mamba_ssm_cache_dtype": "bfloat16")") ==
        "1xM2(C64 K4 M512 H4 G1x32 bf16) 1xGQA2x64");
}

TEST_CASE("layer_types that are not understood are refused by position and value") {
  const Error unknown = refusal(2, R"("layer_types": ["full_attention", "hybrid"])");
  CHECK(unknown.code == ErrorCode::kUnsupported);
  CHECK(unknown.key == "layer_types[1]");
  CHECK(unknown.value == "hybrid");
  CHECK(refusal(2, R"("layer_types": ["full_attention"])").key == "layer_types");
  CHECK(refusal(1, R"("layer_types": [7])").key == "layer_types[0]");
  CHECK(refusal(1, R"("layer_types": "full_attention")").key == "layer_types");
  CHECK(refusal(1, R"("layer_types": ["sliding_attention"])").key == "sliding_window");
  CHECK(refusal(1, R"("layer_types": ["chunked_attention"])").key == "attention_chunk_size");
  CHECK(refusal(1, R"("layer_types": ["linear_attention"])").key == "layer_types[0]");
  CHECK(refusal(1, R"("layer_types": ["conv"])").key == "conv_L_cache");
  CHECK(refusal(1, R"("layer_types": ["deepseek_sparse_attention"])").key == "layer_types");
}

TEST_CASE("interleaved_sliding_window is a window for some layers, never none") {
  const std::string window = R"("interleaved_sliding_window": 32)";
  CHECK(layers_of(2, window + R"(, "layer_types": ["full_attention", "sliding_attention"])") ==
        layers_of(2, R"("sliding_window": 32, "layer_types":
                        ["full_attention", "sliding_attention"])"));
  CHECK(layers_of(7, window + R"(, "sliding_window_pattern": 3)") ==
        layers_of(7, R"("sliding_window": 32, "sliding_window_pattern": 3)"));
  CHECK(refusal(2, window).key == "interleaved_sliding_window");
  CHECK(refusal(2, window).value == "32");
  CHECK_FALSE(refusal(2, window + R"(, "sliding_window": 32)").message.empty());
  CHECK(refusal(2, window + R"(, "use_sliding_window": false)").key ==
        "interleaved_sliding_window");
  CHECK(refusal(2, R"("interleaved_sliding_window": [32, null])").key ==
        "interleaved_sliding_window");
}

TEST_CASE("encoders keep no KV cache") {
  const Error bert = refusal(2, R"("model_type": "bert")");
  CHECK(bert.code == ErrorCode::kUnsupported);
  CHECK(bert.key == "model_type");
  CHECK(bert.value == "bert");
  CHECK(bert.message.find("no KV cache") != std::string::npos);
  CHECK(refusal(2, R"("architectures": ["BrandNewForMaskedLM"], "is_decoder": false)").value ==
        "BrandNewForMaskedLM");
  CHECK(layers_of(2, R"("model_type": "bert", "is_decoder": true)") == "2xGQA2x64");
  // Written by some exporters for decoders too.
  CHECK(layers_of(2, R"("model_type": "mistral", "is_decoder": false)") == "2xGQA2x64");
}

TEST_CASE("keys that smell of a compressed cache are refused with their value") {
  const auto refused = [](const std::string& key, const std::string& value) {
    const Error error = refusal(2, '"' + key + "\": " + value);
    CHECK(error.code == ErrorCode::kUnsupported);
    CHECK(error.key == key);
    CHECK(error.value == value);
  };
  refused("kv_compression_factor", "4");
  refused("attention_compress_stride", "2");
  refused("kv_cache_keep_ratio", "0.5");
  refused("cache_evict_size", "64");
  CHECK(refusal(2, R"("some_attention": {"kv_ratio": 8})").key == "some_attention.kv_ratio");
  CHECK(layers_of(2, R"("kv_compression_factor": 1, "kv_ratio": null, "compress_keys": false,
                        "for_llm_compressor": true, "compression_config": {"compress": 4},
                        "vision_config": {"token_compress": 4}, "cache_ratio": 1.0)") ==
        "2xGQA2x64");
}

TEST_CASE("rule 6: full_attention_interval with a gated delta net") {
  const std::string sizes = R"("linear_num_key_heads": 2, "linear_key_head_dim": 8,
      "linear_num_value_heads": 4, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4, )";
  CHECK(layers_of(8, sizes + R"("full_attention_interval": 4)") ==
        "6xGDN(C96 K4 M512 H4) 2xGQA2x64");
  CHECK(refusal(8, R"("linear_num_value_heads": 4, "full_attention_interval": 4)").key ==
        "linear_num_key_heads");
  CHECK(refusal(8, sizes + R"("max_window_layers": 3)").key == "linear_num_value_heads");
}

TEST_CASE("rule 7: chunks are known for llama4 only") {
  const std::string llama4 = R"("model_type": "llama4_text", "attention_chunk_size": 128)";
  CHECK(layers_of(8, llama4) == "6xGQA2x64c128 2xGQA2x64");
  CHECK(layers_of(2, llama4 + R"(, "no_rope_layers": [0, 1])") == "1xGQA2x64 1xGQA2x64c128");
  CHECK(layers_of(4, llama4 + R"(, "no_rope_layers": [])") == "3xGQA2x64c128 1xGQA2x64");
  CHECK(refusal(4, R"("attention_chunk_size": 128)").key == "attention_chunk_size");
}

TEST_CASE("rules 8 and 9: windows") {
  CHECK(layers_of(7, R"("sliding_window": 32, "sliding_window_pattern": 3)") ==
        "5xGQA2x64w32 2xGQA2x64");
  CHECK(layers_of(7, R"("sliding_window": 32, "_sliding_window_pattern": 3)") ==
        "5xGQA2x64w32 2xGQA2x64");
  CHECK(layers_of(3, R"("sliding_window": 32, "model_type": "gemma2")") ==
        "2xGQA2x64w32 1xGQA2x64");
  CHECK(layers_of(5, R"("sliding_window": 32, "use_sliding_window": true,
                        "max_window_layers": 3)") == "3xGQA2x64 2xGQA2x64w32");
  CHECK(layers_of(5, R"("sliding_window": 32, "use_sliding_window": true,
                        "max_window_layers": 9)") == "5xGQA2x64");
  CHECK(layers_of(5, R"("sliding_window": 32)") == "5xGQA2x64w32");
  CHECK(layers_of(5, R"("sliding_window": 32, "use_sliding_window": false)") == "5xGQA2x64");
}

TEST_CASE("windows that say too little or contradict themselves are refused") {
  CHECK(refusal(4, R"("sliding_window": 32, "model_type": "gemma3_text")").key == "sliding_window");
  CHECK(refusal(4, R"("model_type": "gpt_oss")").key == "sliding_window");
  CHECK(refusal(4, R"("sliding_window_pattern": 3)").key == "sliding_window_pattern");
  CHECK(refusal(4, R"("sliding_window": 32, "sliding_window_pattern": "LLLG")").key ==
        "sliding_window_pattern");
  CHECK(refusal(1, R"("layer_types": ["sliding_attention"], "sliding_window": 32,
                      "use_sliding_window": false)")
            .key == "use_sliding_window");
}

TEST_CASE("layers that share a cache point at the last owner of their kind") {
  const auto model = io::parse_model_config(
      config(6, R"("sliding_window": 32, "num_kv_shared_layers": 2, "layer_types":
                   ["full_attention", "sliding_attention", "sliding_attention", "full_attention",
                    "sliding_attention", "full_attention"])"),
      "t.json");
  REQUIRE(model.has_value());
  CHECK(model->layers[4].caches.empty());
  CHECK(model->layers[4].shares_with == LayerIndex{2});
  CHECK(model->layers[5].shares_with == LayerIndex{3});
  CHECK(model->layers[3].shares_with == std::nullopt);
  CHECK(caching_layers(*model) == Layers{4});
  CHECK(refusal(2, R"("num_kv_shared_layers": 2)").key == "num_kv_shared_layers");
  CHECK(refusal(2, R"("num_kv_shared_layers": 1, "sliding_window": 32, "layer_types":
                      ["full_attention", "sliding_attention"])")
            .key == "num_kv_shared_layers");
}

TEST_CASE("full layers may have sizes of their own") {
  CHECK(layers_of(2, R"("sliding_window": 32, "global_head_dim": 128,
                        "num_global_key_value_heads": 1, "layer_types":
                        ["full_attention", "sliding_attention"])") == "1xGQA1x128 1xGQA2x64w32");
}

TEST_CASE("a latent cache replaces heads, and an indexer stands beside it") {
  const std::string mla = R"("kv_lora_rank": 512, "qk_rope_head_dim": 64)";
  CHECK(layers_of(2, mla) == "2xMLA512+64");
  CHECK(layers_of(2, mla + R"(, "index_head_dim": 128)") == "2xMLA512+64+I128");
  CHECK(layers_of(3, mla + R"(, "index_head_dim": 128, "index_topk_freq": 4,
                            "indexer_types": ["full", "shared", "shared"])") ==
        "1xMLA512+64+I128 2xMLA512+64");
  CHECK(layers_of(1, mla + R"(, "index_head_dim": 128,
                            "layer_types": ["deepseek_sparse_attention"])") == "1xMLA512+64+I128");
  CHECK(refusal(2, R"("kv_lora_rank": 512)").key == "qk_rope_head_dim");
  CHECK(refusal(2, R"("index_head_dim": 128)").key == "index_head_dim");
  CHECK(refusal(2, mla + R"(, "use_mla": false)").key == "use_mla");
  CHECK(refusal(2, mla + R"(, "index_head_dim": 128, "index_topk_freq": 4)").key ==
        "index_topk_freq");
  CHECK(refusal(2, mla + R"(, "index_head_dim": 128, "indexer_types": ["full", "other"])").key ==
        "indexer_types[1]");
  CHECK(refusal(2, mla + R"(, "index_head_dim": 128, "indexer_types": ["full"])").key ==
        "indexer_types");
  CHECK(refusal(1, mla + R"(, "layer_types": ["deepseek_sparse_attention"])").key == "layer_types");
}

TEST_CASE("next-token layers copy the attention layer of the target") {
  const auto mtp = [](const std::string& more) {
    const auto model = io::parse_model_config(config(4, more), "t.json");
    REQUIRE(model.has_value());
    return std::to_string(model->mtp_layers.count()) + "x" + test::compact(model->mtp_layer);
  };
  CHECK(mtp("") == "0x");
  CHECK(mtp(R"("num_nextn_predict_layers": 0)") == "0x");
  CHECK(mtp(R"("num_nextn_predict_layers": 1)") == "1xGQA2x64");
  CHECK(mtp(R"("mtp_num_hidden_layers": 2)") == "2xGQA2x64");
  CHECK(mtp(R"("num_mtp_modules": 3, "mtp_transformer_layers": 2, "use_mtp": true)") ==
        "6xGQA2x64");
  CHECK(mtp(R"("num_mtp_modules": 3, "use_mtp": false)") == "0x");
  CHECK(
      mtp(R"("num_nextn_predict_layers": 1, "sliding_window": 32, "sliding_window_pattern": 4)") ==
      "1xGQA2x64");
  CHECK(mtp(R"("num_nextn_predict_layers": 1, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
               "index_head_dim": 128, "indexer_types": ["shared", "full", "shared", "shared"])") ==
        "1xMLA512+64+I128");
  CHECK(mtp(R"("num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*E*")") ==
        "1xGQA2x64+GQA2x64");
  CHECK(refusal(1, R"("num_nextn_predict_layers": 1, "layer_types": ["mlp"])").key ==
        "num_nextn_predict_layers");
}

TEST_CASE("decoder layers of an encoder-decoder own a self and a cross cache") {
  const std::string whisper =
      R"({"model_type": "whisper", "is_encoder_decoder": true, "decoder_layers": 2,
          "decoder_attention_heads": 4, "d_model": 256, "max_target_positions": 448)";
  CHECK(test::compact(io::parse_model_config(whisper + R"(, "max_source_positions": 1500})",
                                             "t.json")) == "2xGQA4x64+GQA4x64x1500 | q4 max448");
  CHECK(test::compact(io::parse_model_config(whisper + "}", "t.json")) ==
        "refused: max_source_positions");
}

TEST_CASE("what changes the cache and is not understood is refused by key") {
  CHECK(refusal(2, R"("compress_ratios": [0, 4])").key == "compress_ratios");
  CHECK(refusal(2, R"("sparse_attention_config": {"block": 64})").key == "sparse_attention_config");
  CHECK(refusal(2, R"("cross_attention_layers": [1])").key == "cross_attention_layers");
  CHECK(refusal(2, R"("attn_type_list": [1, 0])").key == "attn_type_list");
  CHECK(refusal(2, R"("attention_type": "block_sparse")").value == "block_sparse");
  CHECK(refusal(2, R"("model_type": "longcat_flash")").key == "model_type");
  CHECK(refusal(2, R"("mamba_d_state": 16)").key == "mamba_d_state");
  CHECK(refusal(2, R"("use_cla": true)").key == "use_cla");
  for (const char* harmless :
       {R"("compress_ratios": null)", R"("cross_attention_layers": [])", R"("use_cla": false)",
        R"("attn_type_list": [1, 1])", R"("attention_type": "full")", R"("sparse_config": {})"}) {
    INFO(harmless);
    CHECK(layers_of(2, harmless) == "2xGQA2x64");
  }
}

TEST_CASE("missing keys are named with what to add") {
  const auto missing = [](const std::string& json) {
    const auto result = io::parse_model_config(json, "t.json");
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().code == ErrorCode::kInvalidArgument);
    CHECK(result.error().message.find("add ") != std::string::npos);
    return result.error().key;
  };
  CHECK(missing("{}") == "num_hidden_layers");
  CHECK(missing(R"({"text_config": {}})") == "text_config.num_hidden_layers");
  CHECK(missing(R"({"num_hidden_layers": 2})") == "hidden_size");
  CHECK(missing(R"({"num_hidden_layers": 2, "hidden_size": 64})") == "num_attention_heads");
  CHECK(missing(R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 3})") ==
        "head_dim");
}

}  // namespace kvpool
