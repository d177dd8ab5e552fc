// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// The cache type that a checkpoint asks for, from its two quantisation files.
#include <kvpool/io/model_config_io.hpp>

#include "support/catch.hpp"

#include <optional>
#include <string>

namespace kvpool {
namespace {

std::string config(const std::string& quantization) {
  return R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2)" +
         (quantization.empty() ? "" : R"(, "quantization_config": )" + quantization) + "}";
}

std::optional<KvDtype> kv(const std::string& quantization, const std::string& beside = {}) {
  const auto model = io::parse_model_config(config(quantization), "t.json", beside);
  REQUIRE(model.has_value());
  return model->checkpoint_kv_dtype;
}

Error refusal(const std::string& quantization, const std::string& beside = {}) {
  const auto model = io::parse_model_config(config(quantization), "t.json", beside);
  REQUIRE_FALSE(model.has_value());
  return model.error();
}

}  // namespace

TEST_CASE("kv_cache_scheme and kv_cache_quant_algo give the cache's type") {
  CHECK(kv("") == std::nullopt);
  CHECK(kv(R"({"quant_method": "fp8"})") == std::nullopt);
  CHECK(kv(R"({"kv_cache_scheme": null})") == std::nullopt);
  CHECK(kv(R"({"kv_cache_scheme": {"num_bits": 8, "type": "float"}})") == KvDtype::kFp8E4m3);
  CHECK(kv(R"({"kv_cache_scheme": {"num_bits": 4, "type": "float"}})") == KvDtype::kNvfp4);
  CHECK(kv(R"({"kv_cache_scheme": "FP8"})") == KvDtype::kFp8E4m3);
  CHECK(kv(R"({"kv_cache_quant_algo": "NVFP4"})") == KvDtype::kNvfp4);
  CHECK(kv(R"({"kv_cache_quant_algo": null})") == std::nullopt);
}

TEST_CASE("hf_quant_config.json is read, nested or not") {
  CHECK(kv("", R"({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}})") ==
        KvDtype::kFp8E4m3);
  CHECK(kv("", R"({"kv_cache_quant_algo": "fp8"})") == KvDtype::kFp8E4m3);
  CHECK(kv("", R"({"quantization": {"kv_cache_quant_algo": null}})") == std::nullopt);
  CHECK(kv(R"({"kv_cache_scheme": "FP8"})",
           R"({"quantization": {"kv_cache_quant_algo": "FP8"}})") == KvDtype::kFp8E4m3);
}

TEST_CASE("cache formats that are not understood are refused by value") {
  const Error algo = refusal(R"({"kv_cache_quant_algo": "INT7"})");
  CHECK(algo.code == ErrorCode::kUnsupported);
  CHECK(algo.key == "quantization_config.kv_cache_quant_algo");
  CHECK(algo.value == "INT7");
  CHECK(refusal(R"({"kv_cache_scheme": {"num_bits": 8, "type": "int"}})").key ==
        "quantization_config.kv_cache_scheme");
  CHECK(refusal(R"({"kv_cache_scheme": {"type": "float"}})").key ==
        "quantization_config.kv_cache_scheme.num_bits");
  CHECK(refusal(R"({"kv_cache_scheme": [8]})").key == "quantization_config.kv_cache_scheme");
  CHECK(refusal(R"("fp8")").key == "quantization_config");
  const Error beside = refusal("", R"({"quantization": {"kv_cache_quant_algo": "X"}})");
  CHECK(beside.file == "hf_quant_config.json");
  CHECK(beside.key == "quantization.kv_cache_quant_algo");
  CHECK(refusal("", "[").file == "hf_quant_config.json");
  CHECK(refusal("", "3").file == "hf_quant_config.json");
}

TEST_CASE("two files that ask for different caches contradict each other") {
  const Error error = refusal(R"({"kv_cache_scheme": "FP8"})",
                              R"({"quantization": {"kv_cache_quant_algo": "NVFP4"}})");
  CHECK(error.file == "hf_quant_config.json");
  CHECK(error.message.find("contradicts quantization_config.kv_cache_scheme") != std::string::npos);
}

TEST_CASE("the native type comes from dtype or torch_dtype, nested first") {
  const auto native = [](const std::string& members) {
    const auto model = io::parse_model_config(
        R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2)" + members + "}",
        "t.json");
    REQUIRE(model.has_value());
    return model->native_dtype;
  };
  CHECK(native("") == std::nullopt);
  CHECK(native(R"(, "dtype": "bfloat16")") == KvDtype::kBf16);
  CHECK(native(R"(, "torch_dtype": "torch.float16")") == KvDtype::kFp16);
  CHECK(native(R"(, "torch_dtype": "float32", "text_config": {"dtype": "bfloat16"})") ==
        KvDtype::kBf16);
  CHECK(native(R"(, "dtype": "auto")") == std::nullopt);
  const auto wrong = io::parse_model_config(
      R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "dtype": "int4"})",
      "t.json");
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().key == "dtype");
  CHECK(wrong.error().value == "int4");
}

}  // namespace kvpool
