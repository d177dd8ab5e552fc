// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// Parameter counts against the totals that the models are published with.
#include <kvpool/io/model_config_io.hpp>
#include <kvpool/plan/memory_budget.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <string>

namespace kvpool {
namespace {

ModelConfig own(const std::string& name) {
  auto model = io::read_model_config(std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs/" +
                                     name + ".json");
  REQUIRE(model.has_value());
  return std::move(*model);
}

double billions(const ModelConfig& model) {
  return static_cast<double>(model.parameters.plain.count() + model.parameters.quantized.count()) /
         1e9;
}

ModelConfig parse(const std::string& json, const std::string& beside = {}) {
  auto model = io::parse_model_config(json, "t.json", beside);
  REQUIRE(model.has_value());
  return std::move(*model);
}

}  // namespace

TEST_CASE("a vision encoder is part of the estimate", "[io]") {
  const auto parameters = [](const std::string& vision) {
    const ModelConfig model = parse(
        R"({"model_type":"llama","num_hidden_layers":1,"hidden_size":64,"num_attention_heads":4,)"
        R"("intermediate_size":128,"vocab_size":256)" +
        vision + "}");
    return model.parameters.plain.count();
  };
  const std::int64_t text = parameters("");
  // 2 layers of 4 x 32 x 32 and 2 x 32 x 48; patches of 4 x 4 x 3; a projection of 32 x 64.
  CHECK(parameters(R"(,"vision_config":{"num_hidden_layers":2,"hidden_size":32,)"
                   R"("intermediate_size":48,"patch_size":4})") ==
        text + 2 * (4096 + 3072) + 1536 + 2048);
  // A gate, two frames, 10 positions, and twice 128 x 128 and 128 x 80.
  CHECK(parameters(R"(,"vision_config":{"depth":2,"hidden_size":32,"intermediate_size":48,)"
                   R"("patch_size":4,"temporal_patch_size":2,"num_position_embeddings":10,)"
                   R"("spatial_merge_size":2,"out_hidden_size":80,"hidden_act":"silu",)"
                   R"("deepstack_visual_indexes":[1]})") ==
        text + 2 * (4096 + 4608) + 3072 + 320 + 2 * (16384 + 10240));
  CHECK(parameters(R"(,"vision_config":{"hidden_size":32})") == text);
}

TEST_CASE("estimated parameters agree with published totals within 3 percent") {
  const auto near = [](const std::string& name, double published) {
    const double estimated = billions(own(name));
    INFO(name << ": " << estimated << " of " << published);
    CHECK(std::abs(estimated / published - 1) < 0.03);
  };
  near("llama-3.1-8b", 8.03);
  near("llama-3.1-70b", 70.6);
  near("qwen3-8b", 8.2);
  near("qwen2.5-7b", 7.62);
  near("qwen3-235b", 235);
  near("mixtral-8x7b", 46.7);
  near("gpt-oss-20b", 20.9);
  near("gpt-oss-120b", 117);
  near("kimi-k2", 1030);
  near("deepseek-v3", 685);  // with its next-token layer
  near("llama-4-scout", 107.8);
  near("gemma-2-9b", 9.24);
  near("gemma-3-27b", 27.0);
  near("lfm2-1.2b", 1.17);
  near("whisper-large-v3", 1.54);
  near("opt-125m", 0.125);
  near("gpt2", 0.124);
  near("nemotron-h-56b", 56.3);
  near("nemotron-3-super", 123.6);
  near("qwen3-next-80b", 80);
  near("kimi-linear-48b", 48.0);
  near("granite-4-h-small", 32.2);
}

TEST_CASE("the next-token layer is what DeepSeek-V3's 685 has over its 671") {
  ModelConfig model = own("deepseek-v3");
  const double with = billions(model);
  CHECK(with == Catch::Approx(682.6).epsilon(0.001));
  CHECK(model.parameters.basis.find("with 1 next-token layers") != std::string::npos);
  CHECK(with - 671.0 == Catch::Approx(11.6).epsilon(0.02));
}

TEST_CASE("the stored size follows the checkpoint's format") {
  const auto gigabytes = [](const ModelConfig& model) {
    const ParameterEstimate& p = model.parameters;
    return (static_cast<double>(p.plain.count()) * static_cast<double>(p.plain_bits) / 8 +
            static_cast<double>(p.quantized.count()) * static_cast<double>(p.quantized_centibits) /
                800) /
           1e9;
  };
  CHECK(own("deepseek-v3").parameters.quantized_centibits == 800);
  CHECK(own("gpt-oss-120b").parameters.quantized_centibits == 425);
  CHECK(gigabytes(own("gpt-oss-120b")) == Catch::Approx(65.2).epsilon(0.01));
  CHECK(gigabytes(own("deepseek-v3")) == Catch::Approx(685).epsilon(0.01));
  // Kimi-K3: experts in MXFP4; attention, shared experts and the dense layer stay in bf16.
  const ModelConfig k3 = own("kimi-k3");
  CHECK(k3.parameters.quantized_centibits == 425);
  CHECK(gigabytes(k3) == Catch::Approx(1553).epsilon(0.001));
  CHECK(k3.parameters.plain.count() == 52'011'319'296);
}

TEST_CASE("DeepSeek-V3 over eight GPUs, by how it is spread") {
  const ModelConfig model = own("deepseek-v3");
  const auto gigabytes = [&model](const Parallelism& p) {
    return static_cast<double>(weight_shares(model.parameters, p).per_rank.count()) / 1e9;
  };
  // 58 + 1 expert layers of 256 experts of 3 x 7168 x 2048 in FP8.
  CHECK(model.parameters.routed_experts == Bytes{std::int64_t{59} * 256 * 3 * 7168 * 2048});
  CHECK(gigabytes({}) == Catch::Approx(684.7).epsilon(0.001));
  CHECK(gigabytes({.tensor = 8}) == Catch::Approx(85.6).epsilon(0.001));
  // Attention is 61 + 1 layers of 187.1 million bytes.
  CHECK(static_cast<double>(model.parameters.attention.count()) / 1e9 ==
        Catch::Approx(11.6).epsilon(0.01));
  CHECK(gigabytes({.tensor = 8, .attention_data_parallel = true}) - gigabytes({.tensor = 8}) ==
        Catch::Approx(10.15).epsilon(0.01));
  CHECK(gigabytes({.data = 8, .expert = 8, .attention_data_parallel = true}) ==
        Catch::Approx(102.3).epsilon(0.01));
}

TEST_CASE("attention and routed experts are told apart from the rest") {
  const std::string base =
      R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "head_dim": 32,
          "moe_intermediate_size": 16, "num_experts": 4, "n_shared_experts": 1,
          "intermediate_size": 128, "vocab_size": 100)";
  constexpr std::int64_t kAttention = 2 * 4 * 64 * 64;
  constexpr std::int64_t kExperts = 2 * 4 * 3 * 64 * 16;
  const auto plain = parse(base + "}").parameters;
  CHECK(plain.attention == Bytes{2 * kAttention});
  CHECK(plain.routed_experts == Bytes{2 * kExperts});
  const auto mixed = parse(base + R"(, "quantization_config": {"quant_algo": "MIXED_PRECISION",
      "quantized_layers": {"model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
                           "model.layers.0.mlp.experts.0.up_proj": {"quant_algo": "NVFP4"}}}})")
                         .parameters;
  CHECK(mixed.attention == Bytes{kAttention});
  CHECK(mixed.routed_experts == Bytes{kExperts * 450 / 800});
  // The projections to a narrower stream are no experts.
  const auto narrow = parse(base + R"(, "moe_latent_size": 32})").parameters;
  CHECK(narrow.routed_experts == Bytes{kExperts});
  CHECK(narrow.plain - plain.plain == Elements{2 * 2 * 64 * 32 - kExperts / 2});
}

TEST_CASE("a drafter embeds with the target's table") {
  // fc 3*4096^2, attention with a doubled input, MLP, and a head of 32000.
  CHECK(billions(own("eagle3-llama-8b")) == Catch::Approx(0.4247).epsilon(0.001));
  CHECK(billions(own("dflash-5-full")) == Catch::Approx(1.0486).epsilon(0.001));
}

TEST_CASE("weight formats and what they skip") {
  const std::string base =
      R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "head_dim": 32,
          "intermediate_size": 128, "vocab_size": 100, "tie_word_embeddings": true)";
  constexpr std::int64_t kEmbedding = 6'400;
  constexpr std::int64_t kAttention = 2 * 4 * 64 * 64;
  constexpr std::int64_t kMlp = 2 * 3 * 64 * 128;
  const auto format = [&base](const std::string& section) {
    return parse(base + R"(, "quantization_config": )" + section + "}").parameters;
  };
  const auto plain = parse(base + "}").parameters;
  CHECK(plain.plain == Elements{kEmbedding + kAttention + kMlp});
  CHECK(plain.quantized == Elements{0});
  CHECK(plain.quantized_centibits == 1600);

  const auto fp8 = format(R"({"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]})");
  CHECK(fp8.quantized == Elements{kAttention + kMlp});
  CHECK(fp8.quantized_centibits == 800);
  CHECK(format(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})").quantized_centibits ==
        450);
  CHECK(format(R"({"quant_method": "awq", "bits": 4, "group_size": 128})").quantized_centibits ==
        415);
  CHECK(format(R"({"quant_method": "gptq", "bits": 8, "group_size": -1})").quantized_centibits ==
        800);
  CHECK(format(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
        "targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32}}}})")
            .quantized_centibits == 450);

  const auto skipped =
      format(R"({"quant_method": "fp8", "ignore": ["re:.*self_attn.*", "model.layers.1.mlp*"]})");
  CHECK(skipped.quantized == Elements{kMlp / 2});
  const auto layer = format(R"({"quant_method": "fp8", "ignore": ["model.layers.0*"]})");
  CHECK(layer.quantized == Elements{(kAttention + kMlp) / 2});
  const auto norms = format(R"({"quant_method": "fp8",
      "ignore": ["model.layers.0.input_layernorm", "vision_model.layers.0.mlp"]})");
  CHECK(norms.quantized == Elements{kAttention + kMlp});

  const auto mixed = format(R"({"quant_algo": "MIXED_PRECISION", "quantized_layers": {
      "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
      "model.layers.0.mlp.up_proj": {"quant_algo": "NVFP4"}}})");
  CHECK(mixed.quantized == Elements{kAttention + kMlp});
  CHECK(mixed.quantized_centibits == (800 * kAttention + 450 * kMlp) / (kAttention + kMlp));

  const auto unknown = format(R"({"quant_method": "brand-new"})");
  CHECK(unknown.quantized == Elements{0});
  CHECK(unknown.basis.find("brand-new (not known") != std::string::npos);

  const auto beside = parse(base + "}", R"({"quantization": {"quant_algo": "FP8",
                                            "exclude_modules": ["lm_head"]}})")
                          .parameters;
  CHECK(beside.quantized_centibits == 800);
  CHECK(beside.quantized == Elements{kAttention + kMlp});
}

TEST_CASE("an estimate says what it leaves out") {
  const auto basis = [](const std::string& more) {
    return parse(R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2)" + more +
                 "}")
        .parameters.basis;
  };
  CHECK(basis("") ==
        "estimated from the config: text model, not quantised; not counted: embeddings (no "
        "vocab_size), MLPs (no intermediate_size)");
  CHECK(basis(R"(, "vocab_size": 10, "intermediate_size": 8)") ==
        "estimated from the config: text model, not quantised");
}

}  // namespace kvpool
