// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/engine_cases.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

namespace kvpool {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::string kConfigs = std::string{KVPOOL_SOURCE_DIR} + "/tests/data/configs";

/// A sound case; each part can be replaced.
struct Parts {
  std::string engine = R"("vllm")";
  std::string model = R"("llama-3.1-8b.json")";
  std::string overrides = "{}";
  std::string drafter = "null";
  std::string deployment = R"({"tp": 1, "kv_dtype": "bf16", "tokens_per_block": 16})";
  std::string given = R"({"num_blocks": 10})";
  std::string expect = R"({"kv_tokens": 160})";
  std::string more;

  [[nodiscard]] std::string text() const {
    return R"({"id": "a case", "engine": )" + engine + R"(, "model": )" + model +
           R"(, "model_overrides": )" + overrides + R"(, "drafter": )" + drafter +
           R"(, "deployment": )" + deployment + R"(, "given": )" + given + R"(, "expect": )" +
           expect + more + "}";
  }
};

io::EngineCaseLine only_line(const std::string& text) {
  std::vector<io::EngineCaseLine> lines = io::parse_engine_cases(text, "cases.jsonl", kConfigs);
  REQUIRE(lines.size() == 1);
  return lines.front();
}

io::EngineCase case_of(const Parts& parts) {
  const io::EngineCaseLine line = only_line(parts.text());
  if (!line.content.has_value()) {
    FAIL(to_string(line.content.error()));
  }
  return *line.content;
}

/// `key: message` of what is wrong.
Error error_of(const Parts& parts) {
  const io::EngineCaseLine line = only_line(parts.text());
  REQUIRE_FALSE(line.content.has_value());
  CHECK(line.content.error().file == "cases.jsonl:1");
  return line.content.error();
}

template <typename Change>
Error error_with(Change change) {
  Parts parts;
  change(parts);
  return error_of(parts);
}

}  // namespace

TEST_CASE("a case is a question and what was printed", "[io]") {
  Parts parts;
  parts.expect = R"({"kv_tokens": 160, "max_concurrency": "2.50", "budget_gib": null})";
  parts.more = R"(, "engine_version": "0.20.1", "note": null, "tolerance": {},
      "rounding": "floor", "confidence": "stated", "source": "somewhere")";
  std::string text = parts.text();
  std::erase(text, '\n');
  const io::EngineCaseLine line = only_line(text);
  REQUIRE(line.content.has_value());
  CHECK(line.id == "a case");
  CHECK(line.line == 1);
  CHECK(line.content->engine_version == "0.20.1");
  CHECK(line.content->rounding == FigureRounding::kFloor);
  CHECK(line.content->expected ==
        std::vector<ExpectedFigure>{{FigureKey::kKvTokens, "160"},
                                    {FigureKey::kMaxConcurrency, "2.50"}});
  CHECK(line.content->request.given == EngineGiven{GivenKind::kNumBlocks, 10});
  CHECK(line.content->request.target.layers.size() == 32);
  CHECK(line.content->request.settings.kv_format == engine_format(KvDtype::kBf16));
}

TEST_CASE("what is absent or null has its default", "[io]") {
  Parts parts;
  parts.deployment = R"({"tp": null, "max_model_len": null, "prefix_caching": null})";
  CHECK(case_of(parts).request.settings == EngineSettings{});
  const EngineSettings plain;
  CHECK(plain.token_report == TokenReport::kConcurrency);
  CHECK(plain.prefix_caching);
  CHECK(plain.max_num_batched_tokens == Tokens{8'192});
  CHECK(plain.max_concurrent_batches == 1);
  CHECK(plain.hybrid_kv_manager);
  CHECK_FALSE(plain.dp_attention);
  CHECK(plain.swa_full_ratio == 0.8);
  CHECK(plain.n_seq_max == 1);
  CHECK(plain.n_ubatch == 512);
  CHECK(plain.rollback_states == 0);
  CHECK(plain.k_format.name == "f16");
  CHECK(plain.v_format.name == "f16");
  CHECK(plain.free_fraction_ppm == 900'000);
}

TEST_CASE("every setting reaches its place", "[io]") {
  Parts parts;
  parts.deployment = R"({"tp": 2, "pp": 3, "dp": 4, "dcp": 5, "kv_dtype": "int8",
    "tokens_per_block": 6, "max_model_len": 7, "token_report": "blocks", "prefix_caching": false,
    "state_dtype": "bf16", "conv_state_dtype": "f32", "max_num_batched_tokens": 8,
    "max_concurrent_batches": 9, "max_num_seqs": 10, "hybrid_kv_manager": false,
    "encoder_budget_tokens": 11, "group_padding_limit": 125, "dp_attention": true,
    "max_state_slots": 12, "max_running_requests": 13, "swa_full_ratio": 0.5,
    "mamba_full_ratio": 1, "mem_fraction_static": 0.8, "cuda_graph_max_bs": 14, "max_tokens": 18,
    "free_gpu_memory_fraction": 0.45, "block_manager": "python_v1",
    "max_attention_window": [128, -1], "k_dtype": "q8_0", "v_dtype": "q4_0", "n_seq_max": 15,
    "kv_unified": true, "n_ubatch": 16, "rollback_states": 17, "mla_mode": "latent",
    "swa_cell_multiple": 32})";
  std::erase(parts.deployment, '\n');
  const EngineSettings s = case_of(parts).request.settings;
  CHECK((s.tp == 2 && s.pp == 3 && s.dp == 4 && s.dcp == 5));
  CHECK(s.kv_format->rule == RowRule::kPlainByte);
  CHECK(s.tokens_per_block == Tokens{6});
  CHECK(s.max_model_len == Tokens{7});
  CHECK(s.token_report == TokenReport::kBlocks);
  CHECK_FALSE(s.prefix_caching);
  CHECK((s.state_dtype == KvDtype::kBf16 && s.conv_state_dtype == KvDtype::kFp32));
  CHECK((s.max_num_batched_tokens == Tokens{8} && s.max_concurrent_batches == 9));
  CHECK(s.max_num_seqs == 10);
  CHECK_FALSE(s.hybrid_kv_manager);
  CHECK((s.encoder_budget_tokens == Tokens{11} && s.group_padding_limit == 125));
  CHECK((s.dp_attention && s.max_state_slots == 12 && s.max_running_requests == 13));
  CHECK((s.swa_full_ratio == 0.5 && s.mamba_full_ratio == 1.0));
  CHECK((s.mem_fraction_ppm == 800'000 && s.cuda_graph_max_bs == 14 && s.max_tokens == 18));
  CHECK(s.free_fraction_ppm == 450'000);
  CHECK(s.block_manager == BlockManagerKind::kPythonV1);
  CHECK(s.max_attention_window == std::vector{Tokens{128}, Tokens{-1}});
  CHECK((s.k_format.block_bytes == 34 && s.v_format.block_bytes == 18));
  CHECK((s.n_seq_max == 15 && s.kv_unified && s.n_ubatch == 16 && s.rollback_states == 17));
  CHECK((s.mla_mode == MlaMode::kLatent && s.swa_cell_multiple == 32));
}

TEST_CASE("a drafter is read with its config", "[io]") {
  Parts parts;
  parts.drafter = R"({"kind": "eagle3", "config": "eagle3-llama-8b.json", "num_draft_tokens": 3})";
  const EngineDrafter drafter = *case_of(parts).request.drafter;
  CHECK(drafter.kind == DrafterKind::kEagle3);
  CHECK(drafter.model->layers.size() == 1);
  CHECK(drafter.num_draft_tokens == 3);
  CHECK(drafter.backend.empty());
  parts.drafter = R"({"kind": "mtp", "config": null, "num_draft_tokens": null, "num_layers": 2})";
  CHECK(case_of(parts).request.drafter->num_layers == 2);
  CHECK_FALSE(case_of(parts).request.drafter->num_draft_tokens.has_value());
  // TensorRT-LLM's DFlash has a pool with one of its back-ends only: the one that cases are about.
  parts.engine = R"("trtllm")";
  parts.drafter = R"({"kind": "dflash", "config": "dflash-5-full.json"})";
  CHECK(case_of(parts).request.drafter->backend == "TRTLLM");
  parts.drafter = R"({"kind": "dflash", "config": "dflash-5-full.json", "backend": "VANILLA"})";
  CHECK(case_of(parts).request.drafter->backend == "VANILLA");
  for (const auto& [name, kind] : {std::pair{"eagle", DrafterKind::kEagle3},
                                   {"p-eagle", DrafterKind::kPeagle},
                                   {"draft_model", DrafterKind::kDraftTarget},
                                   {"ngram", DrafterKind::kNgram}}) {
    parts.drafter = R"({"kind": ")" + std::string{name} + R"("})";
    CHECK(case_of(parts).request.drafter->kind == kind);
  }
}

TEST_CASE("overrides replace fields of the text model, null takes them away", "[io]") {
  Parts parts;
  parts.overrides = R"({"num_hidden_layers": 3, "num_key_value_heads": null})";
  const ModelConfig changed = case_of(parts).request.target;
  CHECK(changed.layers.size() == 3);
  CHECK(std::get<AttentionCache>(changed.layers.front().caches.front()).kv_heads == Heads{32});
  parts.model = R"("qwen3.5-27b.json")";
  parts.overrides = R"({"num_key_value_heads": 2})";
  const ModelConfig nested = case_of(parts).request.target;
  CHECK(std::get<AttentionCache>(nested.layers.at(3).caches.front()).kv_heads == Heads{2});
  // The next case of the same file is not touched by it.
  parts.overrides = "{}";
  CHECK(std::get<AttentionCache>(case_of(parts).request.target.layers.at(3).caches.front())
            .kv_heads == Heads{4});
}

TEST_CASE("what is wrong is told with file, line and key", "[io]") {
  CHECK(error_with([](Parts& p) { p.engine = R"("vlm")"; }).key == "engine");
  CHECK_THAT(error_with([](Parts& p) { p.engine = R"("vlm")"; }).message,
             ContainsSubstring("did you mean 'vllm'"));
  CHECK(error_with([](Parts& p) { p.more = R"(, "sourse": "x")"; }).key == "sourse");
  CHECK(error_with([](Parts& p) { p.deployment = R"({"t": 1})"; }).key == "deployment.t");
  CHECK_THAT(error_with([](Parts& p) { p.deployment = R"({"token_raport": "blocks"})"; }).message,
             ContainsSubstring("did you mean 'token_report'"));
  CHECK(error_with([](Parts& p) { p.deployment = R"({"tp": "two"})"; }).key == "deployment.tp");
  CHECK(error_with([](Parts& p) { p.deployment = R"({"tp": -1})"; }).key == "deployment.tp");
  CHECK(error_with([](Parts& p) { p.deployment = R"({"tp": 1.5})"; }).key == "deployment.tp");
  CHECK(error_with([](Parts& p) { p.deployment = R"({"kv_dtype": "fp7"})"; }).key ==
        "deployment.kv_dtype");
  CHECK(error_with([](Parts& p) { p.deployment = R"({"state_dtype": "fp8"})"; }).key ==
        "deployment.state_dtype");
  CHECK(error_with([](Parts& p) { p.deployment = R"({"swa_full_ratio": -0.1})"; }).key ==
        "deployment.swa_full_ratio");
  CHECK(error_with([](Parts& p) { p.deployment = R"({"swa_full_ratio": NaN})"; }).key ==
        "deployment.swa_full_ratio");
  CHECK(error_with([](Parts& p) { p.deployment = R"({"free_gpu_memory_fraction": 1.5})"; }).key ==
        "deployment.free_gpu_memory_fraction");
  CHECK(error_with([](Parts& p) { p.deployment = R"({"token_report": "both"})"; }).key ==
        "deployment.token_report");
  CHECK(error_with([](Parts& p) { p.deployment = "[]"; }).key == "deployment");
  CHECK(error_with([](Parts& p) { p.deployment = "null"; }).key == "deployment");
  CHECK(error_with([](Parts& p) { p.given = "{}"; }).key == "given");
  CHECK(error_with([](Parts& p) { p.given = R"({"num_blocks": 1, "cells": 2})"; }).key ==
        "given.cells");
  CHECK(error_with([](Parts& p) { p.given = R"({"blocks": 1})"; }).key == "given.blocks");
  CHECK(error_with([](Parts& p) { p.given = R"({"num_blocks": 1e30})"; }).key ==
        "given.num_blocks");
  CHECK(error_with([](Parts& p) { p.expect = R"({"kv_token": 1})"; }).key == "expect.kv_token");
  CHECK(error_with([](Parts& p) { p.expect = R"({"kv_tokens": 1.5})"; }).key == "expect.kv_tokens");
  CHECK(error_with([](Parts& p) { p.expect = R"({"pool_gib": "1e3"})"; }).key == "expect.pool_gib");
  CHECK(error_with([](Parts& p) { p.expect = R"({"pool_gib": true})"; }).key == "expect.pool_gib");
  CHECK(error_with([](Parts& p) { p.drafter = R"({"kind": "magic"})"; }).key == "drafter.kind");
  CHECK(error_with([](Parts& p) { p.drafter = "{}"; }).key == "drafter.kind");
  CHECK(error_with([](Parts& p) { p.drafter = R"({"kind": "mtp", "layers": 1})"; }).key ==
        "drafter.layers");
  CHECK(error_with([](Parts& p) { p.overrides = "[1]"; }).key == "model_overrides");
  CHECK(error_with([](Parts& p) { p.more = R"(, "tolerance": {"kv_tokens": 1})"; }).key ==
        "tolerance");
  CHECK(error_with([](Parts& p) { p.more = R"(, "rounding": "up")"; }).key == "rounding");
}

TEST_CASE("a config's own error is told at the place that names it", "[io]") {
  const Error missing = error_with([](Parts& p) { p.model = R"("no-such.json")"; });
  CHECK(missing.code == ErrorCode::kNotFound);
  CHECK(missing.key == "model no-such.json");
  const Error refused = error_with([](Parts& p) { p.model = R"("deepseek-v4-flash.json")"; });
  CHECK(refused.code == ErrorCode::kUnsupported);
  CHECK(refused.key == "model deepseek-v4-flash.json: compress_ratios");
  const Error overridden =
      error_with([](Parts& p) { p.overrides = R"({"num_hidden_layers": "many"})"; });
  CHECK_THAT(overridden.key, ContainsSubstring("model_overrides.num_hidden_layers"));
}

TEST_CASE("models are files below the folder and nothing else", "[io]") {
  for (const char* path : {"../configs/llama-3.1-8b.json", "/etc/hostname", "", "a/../../b.json"}) {
    INFO(path);
    CHECK(error_with([path](Parts& p) { p.model = "\"" + std::string{path} + "\""; }).key ==
          "model");
  }
  CHECK(error_with([](Parts& p) { p.model = "null"; }).key == "model");
}

TEST_CASE("a bad line does not keep the others from being read", "[io]") {
  const std::string good = Parts{}.text();
  const std::vector<io::EngineCaseLine> lines = io::parse_engine_cases(
      good + "\n\n{\"id\": \"cut off\n  \t\n[]\n" + good + "\r\n", "cases.jsonl", kConfigs);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].content.has_value());
  CHECK(lines[1].line == 3);
  CHECK(lines[1].content.error().file == "cases.jsonl:3");
  CHECK(lines[2].content.error().file == "cases.jsonl:5");
  CHECK(lines[3].line == 6);
  CHECK(lines[3].content.has_value());
  CHECK(io::parse_engine_cases("", "cases.jsonl", kConfigs).empty());
}

TEST_CASE("a missing file of cases is an error of its own", "[io]") {
  const auto lines = io::read_engine_cases("/no/such/cases.jsonl", kConfigs);
  REQUIRE_FALSE(lines.has_value());
  CHECK(lines.error().code == ErrorCode::kNotFound);
}

TEST_CASE("one setting by its name", "[io]") {
  EngineSettings settings;
  CHECK(io::set_engine_setting("token_report", "blocks", Engine::kVllm, settings).has_value());
  CHECK(settings.token_report == TokenReport::kBlocks);
  CHECK(io::set_engine_setting("prefix_caching", "false", Engine::kVllm, settings).has_value());
  CHECK_FALSE(settings.prefix_caching);
  CHECK(io::set_engine_setting("k_dtype", "\"q8_0\"", Engine::kLlamacpp, settings).has_value());
  CHECK(settings.k_format.block_bytes == 34);
  CHECK(io::set_engine_setting("swa_full_ratio", "0.25", Engine::kSglang, settings).has_value());
  CHECK(settings.swa_full_ratio == 0.25);
  CHECK_FALSE(io::set_engine_setting("swa_ratio", "0.25", Engine::kSglang, settings).has_value());
  CHECK_FALSE(io::set_engine_setting("tp", "many", Engine::kVllm, settings).has_value());
  CHECK_FALSE(io::set_engine_setting("tp", "", Engine::kVllm, settings).has_value());
}

}  // namespace kvpool
