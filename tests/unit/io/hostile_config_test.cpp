// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// Broken and malicious input ends in an error that names the key, quickly.
#include <kvpool/io/model_config_io.hpp>

#include "support/catch.hpp"

#include <ctime>
#include <string>

namespace kvpool {
namespace {

// Of processor time, so that a loaded machine does not matter. Generous, since sanitizers are slow;
// an endless or quadratic reader is slower.
constexpr double kSoonSeconds = 2;

Result<ModelConfig> parse(const std::string& json) {
  const std::clock_t start = std::clock();
  auto result = io::parse_model_config(json, "hostile.json");
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < kSoonSeconds);
  return result;
}

Error refused(const std::string& json) {
  auto result = parse(json);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().file == "hostile.json");
  CHECK_FALSE(result.error().message.empty());
  CHECK(result.error().key.size() < 200);
  CHECK(result.error().value.size() < 100);
  return result.error();
}

// A good config with one member replaced or added.
std::string with(const std::string& member) {
  return R"({"num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8,
             "num_key_value_heads": 2, "head_dim": 64, )" +
         member + "}";
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string out;
  out.reserve(text.size() * times);
  for (std::size_t i = 0; i < times; ++i) {
    out += text;
  }
  return out;
}

}  // namespace

TEST_CASE("truncated configs are errors at every length") {
  const std::string whole = with(R"("layer_types": ["full_attention", "full_attention",
      "full_attention", "full_attention"], "quantization_config": {"quant_method": "fp8"})");
  REQUIRE(parse(whole).has_value());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    INFO(length);
    CHECK(refused(whole.substr(0, length)).code == ErrorCode::kInvalidArgument);
  }
  CHECK(refused(whole.substr(0, whole.find("fp8"))).key == "quantization_config.quant_method");
}

TEST_CASE("deep nesting is refused before it can exhaust the stack") {
  CHECK(refused(std::string(100'000, '[')).message == "nested deeper than 64 levels");
  CHECK(refused(with(R"("a": )" + std::string(100'000, '['))).key.substr(0, 1) == "a");
  CHECK(refused(repeated(R"({"a":)", 100'000)).message == "nested deeper than 64 levels");
  CHECK(parse(with(R"("a": )" + std::string(63, '[') + std::string(63, ']'))).has_value());
}

TEST_CASE("numbers outside their domain are refused with key and value") {
  for (const char* key :
       {"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
        "head_dim", "sliding_window", "v_head_dim", "max_position_embeddings", "kv_lora_rank"}) {
    for (const char* value :
         {"0", "-1", "1e300", "-9223372036854775808", "9223372036854775807", "18446744073709551615",
          "99999999999999999999999", "1.5", "1099511627777", "NaN", "Infinity", "-Infinity",
          "\"7\"", "true", "{}"}) {
      INFO(key << " = " << value);
      const Error error = refused(with("\"" + std::string{key} + "\": " + value));
      CHECK(error.code == ErrorCode::kInvalidArgument);
      CHECK(error.key == key);
      CHECK_FALSE(error.value.empty());
    }
  }
}

TEST_CASE("a number too large for a double is an error of the text") {
  const Error error = refused(with("\"head_dim\": 1" + std::string(400, '0')));
  CHECK(error.key == "head_dim");
  CHECK(error.message.find("too large") != std::string::npos);
}

TEST_CASE("wrong types are refused by key") {
  CHECK(refused("[]").message.find("object") != std::string::npos);
  CHECK(refused("3").code == ErrorCode::kInvalidArgument);
  CHECK(refused("null").code == ErrorCode::kInvalidArgument);
  CHECK(refused("").code == ErrorCode::kInvalidArgument);
  CHECK(refused(with(R"("model_type": 7)")).key == "model_type");
  CHECK(refused(with(R"("architectures": "X")")).key == "architectures");
  CHECK(refused(with(R"("architectures": [1])")).key == "architectures[0]");
  CHECK(refused(with(R"("dtype": ["bfloat16"])")).key == "dtype");
  CHECK(refused(with(R"("use_sliding_window": "no")")).key == "use_sliding_window");
  CHECK(refused(with(R"("layer_types": {"a": 1})")).key == "layer_types");
  CHECK(refused(with(R"("hybrid_override_pattern": 4)")).key == "hybrid_override_pattern");
  CHECK(refused(with(R"("linear_attn_config": [])")).key == "linear_attn_config");
  CHECK(refused(with(R"("block_configs": [1, 2, 3, 4])")).key == "block_configs[0].attention");
  CHECK(refused(with(R"("vocab_size": "x")")).key == "vocab_size");
  CHECK(refused(with(R"("sliding_window": [1, 2])")).key == "sliding_window");
}

TEST_CASE("text that is no JSON or no UTF-8 is refused") {
  CHECK(refused("{'a': 1}").code == ErrorCode::kInvalidArgument);
  CHECK(refused("{\"a\": \"\xff\xfe\"}").key == "a");
  CHECK(refused(std::string("\0\0\0\0", 4)).code == ErrorCode::kInvalidArgument);
  CHECK(refused(with("\"a\": \"\\ud800\"")).code == ErrorCode::kInvalidArgument);
  CHECK(refused(with("\"a\": 1") + "garbage").code == ErrorCode::kInvalidArgument);
  CHECK(refused("\xef\xbb\xbf{}").key == "num_hidden_layers");
}

TEST_CASE("huge texts are shortened in errors") {
  const std::string huge(1 << 20, 'x');
  const Error value = refused(with(R"("num_hidden_layers": ")" + huge + "\""));
  CHECK(value.key == "num_hidden_layers");
  CHECK(value.value.size() < 80);
  CHECK(refused(with(R"("layer_types": [")" + huge + R"(", "a", "b", "c"])")).key ==
        "layer_types[0]");
  CHECK(refused(with("\"" + huge + "\": {\"b\": ")).key.size() < 200);
  const Error wide = refused(with(R"("num_hidden_layers": ")" + repeated("\xc3\xa4", 100) + "\""));
  CHECK(wide.value == repeated("\xc3\xa4", 30) + "...");
}

TEST_CASE("products that do not fit into 64 bits are refused") {
  const Error error = refused(
      R"({"num_hidden_layers": 100000, "hidden_size": 1048576, "num_attention_heads": 65536,
          "head_dim": 1048576, "intermediate_size": 1048576, "num_experts": 1048576})");
  CHECK(error.code == ErrorCode::kOutOfRange);
  CHECK(error.key == "hidden_size");
  CHECK(parse(with(R"("hybrid_override_pattern": "MMM*", "mamba_num_heads": 65536,
      "mamba_head_dim": 1048576, "n_groups": 1, "ssm_state_size": 1048576, "conv_kernel": 4)"))
            .has_value());
}

TEST_CASE("many layers and many values stay quick") {
  CHECK(parse(R"({"num_hidden_layers": 100000, "hidden_size": 64, "num_attention_heads": 2})")
            ->layers.size() == 100'000);
  CHECK(refused(R"({"num_hidden_layers": 100001, "hidden_size": 64, "num_attention_heads": 2})")
            .key == "num_hidden_layers");
  CHECK(refused("[" + repeated("0,", 2'000'001) + "0]").message.find("2000000 values") !=
        std::string::npos);
  CHECK(parse(with("\"a\": {" + repeated(R"("k": 1, )", 200'000) + R"("k": 2})")).has_value());
}

TEST_CASE("a config of 4 MiB with thousands of quantisation entries is read") {
  std::string entries;
  std::size_t i = 0;
  while (entries.size() < (std::size_t{4} << 20U)) {
    entries += (i == 0 ? "" : ", ") + std::string{"\"model.layers."} + std::to_string(i % 4) +
               ".mlp.experts." + std::to_string(i) + R"(.down_proj": {"quant_algo": "NVFP4"})";
    ++i;
  }
  const std::string json = with(
      R"("intermediate_size": 64, "num_experts": 8, "quantization_config":
         {"quant_algo": "MIXED_PRECISION", "quantized_layers": {)" +
      entries + "}}");
  const auto model = parse(json);
  REQUIRE(model.has_value());
  CHECK(model->parameters.quantized_centibits == 450);
}

TEST_CASE("a key that occurs twice counts once, the last one") {
  const auto model = parse(
      R"({"text_config": {"num_hidden_layers": 1}, "text_config": {"num_hidden_layers": 3,
          "hidden_size": 64, "num_attention_heads": 2}})");
  REQUIRE(model.has_value());
  CHECK(model->layers.size() == 3);
}

}  // namespace kvpool
