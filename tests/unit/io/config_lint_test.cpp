// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/config_lint.hpp>

#include "support/catch.hpp"
#include "support/safetensors_files.hpp"

#include <string>
#include <tuple>
#include <vector>

namespace kvpool {
namespace {

using io::Finding;
using io::FindingKind;
using testing_support::ScratchFolder;

/// A config about which there is nothing to say.
constexpr const char* kClean =
    R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,)"
    R"("num_key_value_heads":2,"head_dim":16,"intermediate_size":128,"vocab_size":256,)"
    R"("torch_dtype":"bfloat16","max_position_embeddings":4096,"tie_word_embeddings":false,)"
    R"("rope_theta":10000.0,"bos_token_id":1,"use_cache":true)";

using KindAndKey = std::tuple<FindingKind, std::string>;

std::vector<KindAndKey> kinds_and_keys(const std::vector<Finding>& findings) {
  std::vector<KindAndKey> out;
  for (const Finding& finding : findings) {
    CHECK(!finding.message.empty());
    CHECK(!finding.file.empty());
    out.emplace_back(finding.kind, finding.key);
  }
  return out;
}

std::vector<KindAndKey> lint(const std::string& more, const std::string& quant = {}) {
  return kinds_and_keys(io::lint_config(std::string{kClean} + more + "}", "c.json", quant));
}

TEST_CASE("a plain config with every figure is clean", "[io]") {
  CHECK(lint("").empty());
  CHECK(lint(R"(,"unknown_but_off":false,"also_off":0,"none":null,"empty":[])").empty());
}

TEST_CASE("what no rule reads is not understood", "[io]") {
  using enum FindingKind;
  CHECK(lint(R"(,"hyper_cache_fold":3)") ==
        std::vector<KindAndKey>{{kNotUnderstood, "hyper_cache_fold"}});
  CHECK(lint(R"(,"text_config":{"model_type":"novel","strange":true})") ==
        std::vector<KindAndKey>{{kNotUnderstood, "text_config.strange"},
                                {kNotUnderstood, "text_config.model_type"}});
  // What the reader refuses is a finding, too, and the last one.
  CHECK(lint(R"(,"compress_ratios":[4,128])") ==
        std::vector<KindAndKey>{{kNotUnderstood, "compress_ratios"}});
}

TEST_CASE("what cannot both hold is contradictory", "[io]") {
  using enum FindingKind;
  CHECK(lint(R"(,"dtype":"float16")") == std::vector<KindAndKey>{{kContradictory, "torch_dtype"}});
  CHECK(lint(R"(,"sliding_window":8192)") ==
        std::vector<KindAndKey>{{kContradictory, "sliding_window"}});
  CHECK(lint(R"(,"num_key_value_heads":3)") ==
        std::vector<KindAndKey>{{kContradictory, "num_key_value_heads"}});
  CHECK(lint(R"(,"quantization_config":{"quant_method":"modelopt","quant_algo":"FP8",)"
             R"("kv_cache_quant_algo":"FP8"})",
             R"({"quantization":{"kv_cache_quant_algo":"NVFP4"}})") ==
        std::vector<KindAndKey>{{kContradictory, "quantization.kv_cache_quant_algo"}});
  CHECK(kinds_and_keys(io::lint_config("{", "c.json")) ==
        std::vector<KindAndKey>{{kContradictory, ""}});
}

TEST_CASE("what is left out is defaulted", "[io]") {
  using enum FindingKind;
  const auto bare = kinds_and_keys(
      io::lint_config(R"({"num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,)"
                      R"("intermediate_size":128,"vocab_size":256})",
                      "c.json"));
  CHECK(bare == std::vector<KindAndKey>{{kDefaulted, "model_type"},
                                        {kDefaulted, "num_attention_heads"},
                                        {kDefaulted, "hidden_size"},
                                        {kDefaulted, "dtype"},
                                        {kDefaulted, "max_position_embeddings"},
                                        {kDefaulted, "tie_word_embeddings"}});
}

TEST_CASE("a checkpoint's files are held against its config", "[io]") {
  using enum FindingKind;
  const ScratchFolder folder{"lint"};
  folder.write("config.json", std::string{kClean} + "}");
  const auto lint_folder = [&folder] {
    const auto findings = io::lint_checkpoint(folder.path());
    REQUIRE(findings.has_value());
    return kinds_and_keys(*findings);
  };
  CHECK(lint_folder() == std::vector<KindAndKey>{{kDefaulted, ""}});  // estimated weights
  folder.write_tensors("model.safetensors",
                       {{"model.embed_tokens.weight", "BF16", {256, 64}, 32768},
                        {"lm_head.weight", "BF16", {256, 64}, 32768},
                        {"model.layers.0.mlp.up_proj.weight", "BF16", {128, 64}, 16384},
                        {"model.layers.0.odd.weight", "BF16", {64, 64}, 8192},
                        {"model.layers.2.mlp.up_proj.weight", "BF16", {128, 64}, 16384}});
  CHECK(lint_folder() == std::vector<KindAndKey>{{kNotUnderstood, "model.layers.0.odd.weight"},
                                                 {kContradictory, "num_hidden_layers"},
                                                 {kContradictory, "num_nextn_predict_layers"},
                                                 {kContradictory, ""}});  // bytes
  folder.write("model.safetensors", "version https://git-lfs.github.com/spec/v1");
  CHECK(lint_folder() == std::vector<KindAndKey>{{kContradictory, "header length"}});
  CHECK(io::lint_checkpoint(folder.path("none")).error().code == ErrorCode::kNotFound);
}

}  // namespace
}  // namespace kvpool
