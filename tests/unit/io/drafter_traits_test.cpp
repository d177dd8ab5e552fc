// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// What a config says about drafting.
#include <kvpool/io/model_config_io.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <string>

namespace kvpool {
namespace {

Result<ModelConfig> parse(const std::string& more) {
  return io::parse_model_config(
      R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, )" + more + "}",
      "t.json");
}

DrafterKind kind(const std::string& more) {
  const auto model = parse(more);
  REQUIRE(model.has_value());
  REQUIRE(model->drafter.has_value());
  REQUIRE(model->drafter->kind.has_value());
  return *model->drafter->kind;
}

Error refusal(const std::string& more) {
  const auto model = parse(more);
  REQUIRE_FALSE(model.has_value());
  return model.error();
}

}  // namespace

TEST_CASE("architectures name the kind of drafter") {
  CHECK(kind(R"("architectures": ["DFlashDraftModel"])") == DrafterKind::kDflash);
  CHECK(kind(R"("architectures": ["DSparkDraftModel"])") == DrafterKind::kDspark);
  CHECK(kind(R"("architectures": ["DominoDraftModel"])") == DrafterKind::kDomino);
  CHECK(kind(R"("architectures": ["PEagleDraftModel"])") == DrafterKind::kPeagle);
  CHECK(kind(R"("architectures": ["LlamaForCausalLMEagle3"])") == DrafterKind::kEagle3);
  CHECK(kind(R"("architectures": ["Eagle3LlamaForCausalLM"])") == DrafterKind::kEagle3);
  CHECK_FALSE(parse(R"("architectures": ["LlamaForCausalLM"])")->drafter.has_value());
}

TEST_CASE("dflash_config names the kind where no architecture does") {
  CHECK(kind(R"("dflash_config": {})") == DrafterKind::kDflash);
  CHECK(kind(R"("dflash_config": {"projector_type": "dspark"})") == DrafterKind::kDspark);
  CHECK(kind(R"("dflash_config": {"projector_type": "domino"})") == DrafterKind::kDomino);
}

TEST_CASE("block_size gives the tokens of a block") {
  CHECK(
      parse(R"("architectures": ["DFlashDraftModel"], "block_size": 16)")->drafter->block_tokens ==
      Tokens{16});
  CHECK(parse(R"("architectures": ["DFlashDraftModel"])")->drafter->block_tokens == Tokens{0});
  CHECK(refusal(R"("architectures": ["DFlashDraftModel"], "block_size": -1)").key == "block_size");
}

TEST_CASE("num_target_layers says what the drafter was made for") {
  const auto stated = parse(R"("architectures": ["DFlashDraftModel"], "num_target_layers": 36)");
  REQUIRE(stated.has_value());
  CHECK(stated->drafter->target_layers == Layers{36});
  const auto fact = std::ranges::find(stated->facts, "target_layers", &ConfigFact::figure);
  REQUIRE(fact != stated->facts.end());
  CHECK(fact->key == "num_target_layers");
  CHECK(fact->value == "36");
  CHECK_FALSE(
      parse(R"("architectures": ["DFlashDraftModel"])")->drafter->target_layers.has_value());
  CHECK(refusal(R"("architectures": ["DFlashDraftModel"], "num_target_layers": 0)").key ==
        "num_target_layers");
}

TEST_CASE("contradictions in a drafter's config are refused") {
  const std::string dspark = R"("architectures": ["DSparkDraftModel"], )";
  const Error mla = refusal(dspark + R"("dflash_config": {"attention_mode": "mla"})");
  CHECK(mla.key == "dflash_config.attention_mode");
  CHECK(mla.message.find("add kv_lora_rank") != std::string::npos);
  CHECK(refusal(dspark + R"("kv_lora_rank": 512, "qk_rope_head_dim": 64,
                            "dflash_config": {"attention_mode": "gqa"})")
            .key == "dflash_config.attention_mode");
  CHECK(refusal(dspark + R"("dflash_config": {"attention_mode": "linear"})").code ==
        ErrorCode::kUnsupported);
  CHECK(refusal(dspark + R"("dflash_config": {"projector_type": "domino"})").key ==
        "dflash_config.projector_type");
  CHECK(refusal(dspark + R"("dflash_config": {"projector_type": "new"})").value == "new");
  CHECK(refusal(dspark + R"("dflash_config": 3)").key == "dflash_config");
}

}  // namespace kvpool
