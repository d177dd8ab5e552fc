// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// Files, directories, names, nesting and facts.
#include <kvpool/io/model_config_io.hpp>

#include "compact_model.hpp"
#include "support/catch.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace kvpool {
namespace {

namespace fs = std::filesystem;

const std::string kSmall =
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
        "num_attention_heads": 2, "max_position_embeddings": 128})";

// A directory that goes away with the test.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::string& name)
      : path_{fs::temp_directory_path() / ("kvpool-" + std::to_string(::getpid()) + "-" + name)} {
    fs::create_directories(path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream{path_ / name, std::ios::binary} << text;
    return (path_ / name).string();
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

const ConfigFact* fact(const ModelConfig& model, const std::string& figure) {
  const auto at =
      std::ranges::find_if(model.facts, [&](const ConfigFact& f) { return f.figure == figure; });
  return at == model.facts.end() ? nullptr : &*at;
}

}  // namespace

TEST_CASE("a checkpoint directory is read with the file beside its config") {
  const TemporaryDirectory dir{"checkpoint"};
  (void)dir.write("config.json", kSmall);
  const auto plain = io::read_model_config(dir.path());
  REQUIRE(plain.has_value());
  CHECK(plain->name == fs::path{dir.path()}.filename().string());
  CHECK(plain->checkpoint_kv_dtype == std::nullopt);

  (void)dir.write("hf_quant_config.json", R"({"quantization": {"kv_cache_quant_algo": "FP8"}})");
  const auto quantised = io::read_model_config(dir.path() + "/config.json");
  REQUIRE(quantised.has_value());
  CHECK(quantised->checkpoint_kv_dtype == KvDtype::kFp8E4m3);

  (void)dir.write("hf_quant_config.json", R"({"quantization": {"kv_cache_quant_algo": "X"}})");
  const auto broken = io::read_model_config(dir.path());
  REQUIRE_FALSE(broken.has_value());
  CHECK(broken.error().file == dir.path() + "/hf_quant_config.json");
}

TEST_CASE("files that cannot be read are errors with their name") {
  const TemporaryDirectory dir{"unreadable"};
  const auto missing = io::read_model_config(dir.path() + "/none.json");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(missing.error().file == dir.path() + "/none.json");
  const auto empty_directory = io::read_model_config(dir.path());
  REQUIRE_FALSE(empty_directory.has_value());
  CHECK(empty_directory.error().file == dir.path() + "/config.json");
  const std::string large = dir.write("large.json", "{}");
  fs::resize_file(large, (std::uintmax_t{64} << 20U) + 1);
  const auto refused = io::read_model_config(large);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK(io::read_model_config(std::string(5000, 'x')).has_value() == false);
  CHECK(io::read_model_config("").has_value() == false);
}

TEST_CASE("the display name is the file's stem") {
  CHECK(io::parse_model_config(kSmall, "a/b/llama-3.1-8b.json")->name == "llama-3.1-8b");
  CHECK(io::parse_model_config(kSmall, "a/b/config.json")->name == "b");
  CHECK(io::parse_model_config(kSmall, "config.json")->name == "config");
}

TEST_CASE("nested configs lie over the top level") {
  const auto model = io::parse_model_config(
      R"({"model_type": "outer", "architectures": ["Outer"], "num_hidden_layers": 9,
          "torch_dtype": "float16", "hidden_size": 64, "vision_config": {"num_hidden_layers": 5},
          "text_config": {"model_type": "inner", "num_hidden_layers": 2,
                          "num_attention_heads": 2}})",
      "t.json");
  REQUIRE(model.has_value());
  CHECK(model->layers.size() == 2);
  CHECK(model->model_type == "inner");
  CHECK(model->architecture == "Outer");
  CHECK(model->native_dtype == KvDtype::kFp16);
  CHECK(fact(*model, "layers")->key == "text_config.num_hidden_layers");
  CHECK(fact(*model, "hidden_size")->key == "hidden_size");
  CHECK(test::compact(io::parse_model_config(R"({"llm_config": )" + kSmall + "}", "t.json")) ==
        "2xGQA2x32 | q2 max128");
  CHECK(test::compact(io::parse_model_config(R"({"text_config": 3})", "t.json")) ==
        "refused: text_config");
}

TEST_CASE("errors name the dotted key in the nested config") {
  const auto result =
      io::parse_model_config(R"({"text_config": {"num_hidden_layers": "many"}})", "model.json");
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error() == Error{ErrorCode::kInvalidArgument,
                                "must be a whole number from 1 to 100000", "model.json",
                                "text_config.num_hidden_layers", "many"});
}

TEST_CASE("every figure has a fact with its key and rule") {
  const auto model =
      io::read_model_config(std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs/kimi-k3.json");
  REQUIRE(model.has_value());
  const auto check = [&](const std::string& figure, const std::string& key,
                         const std::string& value) {
    INFO(figure);
    const ConfigFact* found = fact(*model, figure);
    REQUIRE(found != nullptr);
    CHECK(found->key == key);
    CHECK(found->value == value);
  };
  check("layers", "text_config.num_hidden_layers", "93");
  check("query_heads", "text_config.num_attention_heads", "96");
  check("latent_dim", "text_config.kv_lora_rank", "512");
  check("rope_dim", "text_config.qk_rope_head_dim", "64");
  check("attention_layers", "text_config.linear_attn_config.full_attn_layers", "24");
  check("recurrent_layers", "text_config.linear_attn_config.full_attn_layers", "69");
  check("conv_channels", "text_config.linear_attn_config.num_heads", "96");
  check("conv_kernel", "text_config.linear_attn_config.short_conv_kernel_size", "4");
  check("matrix_elements", "text_config.linear_attn_config.head_dim", "128");
  check("max_positions", "text_config.max_position_embeddings", "1048576");
  CHECK(fact(*model, "conv_channels")->rule == "3 * heads * dim = 3 x 96 x 128 = 36864");
  CHECK(fact(*model, "matrix_elements")->rule == "heads * dim * dim = 96 x 128 x 128 = 1572864");
}

TEST_CASE("facts name keys of the file, with the file's own values") {
  const auto facts_of = [](const std::string& more) {
    auto model = io::parse_model_config(
        R"({"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 2)" + more + "}",
        "t.json");
    REQUIRE(model.has_value());
    return std::move(*model);
  };
  const auto is = [](const ModelConfig& model, const std::string& figure, const ConfigFact& want) {
    INFO(figure);
    const ConfigFact* found = fact(model, figure);
    REQUIRE(found != nullptr);
    CHECK(found->key == want.key);
    CHECK(found->value == want.value);
    CHECK(found->rule == want.rule);
  };
  const ModelConfig plain = facts_of("");
  is(plain, "attention_layers",
     {.key = "num_hidden_layers",
      .value = "4",
      .rule = "no layer list and no window: all layers attend"});
  is(plain, "kv_heads",
     {.key = "num_attention_heads",
      .value = "2",
      .rule = "no num_key_value_heads: as many as query heads"});
  is(plain, "key_dim",
     {.key = "hidden_size",
      .value = "64",
      .rule = "no head_dim: hidden size / query heads = 64 / 2 = 32"});
  is(facts_of(R"(, "use_sliding_window": false)"), "attention_layers",
     {.key = "use_sliding_window",
      .value = "false",
      .rule = "no window: every layer is full: 4 attention layers"});
  is(facts_of(R"(, "sliding_window": null)"), "attention_layers",
     {.key = "sliding_window",
      .value = "null",
      .rule = "no window: every layer is full: 4 attention layers"});
  is(facts_of(R"(, "sliding_window": 32)"), "attention_layers",
     {.key = "sliding_window",
      .value = "32",
      .rule = "a window and nothing else: 4 attention layers"});
  is(facts_of(R"(, "multi_query": true)"), "kv_heads",
     {.key = "multi_query", .value = "true", .rule = "multi-query attention: 1 KV head"});
}

TEST_CASE("in every bundled config, facts name keys that the file has") {
  for (const std::string name :
       {"deepseek-v3", "deepseek-v3.2", "glm-5.2", "gpt-oss-120b", "granite-4-h-small", "kimi-k3",
        "lfm2-1.2b", "llama-3.1-8b", "llama-4-scout", "gemma-4-e4b", "nemotron-3-super", "opt-125m",
        "gpt2", "whisper-large-v3", "qwen3.5-27b", "qwen3-next-80b", "dspark-k3-96x16",
        "peagle-4"}) {
    const std::string path =
        std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs/" + name + ".json";
    const auto model = io::read_model_config(path);
    REQUIRE(model.has_value());
    std::ifstream file{path};
    const std::string text{std::istreambuf_iterator<char>{file}, {}};
    for (const ConfigFact& each : model->facts) {
      INFO(name << ": " << each.figure << " from " << each.key);
      const std::string last = each.key.substr(each.key.rfind('.') + 1);
      CHECK(text.find('"' + last + '"') != std::string::npos);
    }
  }
}

TEST_CASE("KV heads that do not divide are refused under the key that has them") {
  const auto refused = [](const std::string& more) {
    auto model = io::parse_model_config(
        R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4)" + more + "}",
        "t.json");
    REQUIRE_FALSE(model.has_value());
    return model.error();
  };
  const Error plain = refused(R"(, "num_key_value_heads": 3, "use_sliding_window": false)");
  CHECK(plain.key == "num_key_value_heads");
  CHECK(plain.message == "must divide the 4 query heads");
  CHECK(refused(R"(, "swa_num_key_value_heads": 3, "sliding_window": 32)").key ==
        "swa_num_key_value_heads");
}

TEST_CASE("a name that speaks of quantised weights, without a section that does") {
  const auto basis = [](const std::string& file, const std::string& beside = {}) {
    const auto model = io::parse_model_config(
        R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
            "intermediate_size": 8, "vocab_size": 8})",
        file, beside);
    REQUIRE(model.has_value());
    return model->parameters.basis;
  };
  const std::string hint = "is hf_quant_config.json missing beside the config?";
  CHECK(basis("a/Model-NVFP4/config.json").find("ends in -NVFP4: " + hint) != std::string::npos);
  CHECK(basis("Model-FP8.json").find("ends in -FP8: " + hint) != std::string::npos);
  CHECK(basis("Model.json").find(hint) == std::string::npos);
  CHECK(basis("Model-FP8.json", R"({"quantization": {"quant_algo": "FP8"}})").find(hint) ==
        std::string::npos);
}

TEST_CASE("numbers may arrive as whole floats, and keys twice") {
  CHECK(test::compact(io::parse_model_config(
            R"({"num_hidden_layers": 2.0, "hidden_size": 6.4e1, "num_attention_heads": 9,
                "num_attention_heads": 2})",
            "t.json")) == "2xGQA2x32 | q2");
  CHECK(test::compact(io::parse_model_config(
            R"({"num_hidden_layers": 2.5, "hidden_size": 64, "num_attention_heads": 2})",
            "t.json")) == "refused: num_hidden_layers");
}

TEST_CASE("bare Infinity and NaN are accepted where no figure is read") {
  CHECK(test::compact(io::parse_model_config(
            R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2,
                "time_step_limit": [0.0, Infinity], "a": -Infinity, "b": NaN, "Infinity": "NaN",
                "c": "-Infinity \" NaN"})",
            "t.json")) == "2xGQA2x32 | q2");
  const auto refused = io::parse_model_config(R"({"num_hidden_layers": Infinity})", "t.json");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().key == "num_hidden_layers");
  CHECK(refused.error().value == "Infinity");
}

}  // namespace kvpool
