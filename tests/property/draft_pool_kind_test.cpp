// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether a draft pool exists: the table, written out.
#include <kvpool/plan/draft_pool_kind.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <string>

namespace kvpool {
namespace {

using enum DrafterKind;
constexpr auto kOwn = DraftPoolKind::kOwnPool;
constexpr auto kTarget = DraftPoolKind::kTargetLayers;
constexpr auto kArena = DraftPoolKind::kPrivateArena;
constexpr auto kNothing = DraftPoolKind::kNone;

struct Row {
  DrafterKind drafter;
  std::string backend;
  bool attention_dp;
  std::int64_t pipeline;
  std::string model;
  bool in_checkpoint;
  DraftPoolKind trtllm;
  DraftPoolKind kvpool;
};

const Row kTable[] = {
    // DFlash: with TRTLLM a pool, under attention DP and PP too. Its default is VANILLA.
    {kDflash, "TRTLLM", false, 1, "qwen3", false, kOwn, kOwn},
    {kDflash, "TRTLLM", true, 1, "qwen3", false, kOwn, kOwn},
    {kDflash, "TRTLLM", false, 2, "qwen3", false, kOwn, kOwn},
    {kDflash, "trtllm", false, 1, "qwen3", false, kOwn, kOwn},
    {kDflash, "VANILLA", false, 1, "qwen3", false, kArena, kOwn},
    {kDflash, "VANILLA", true, 1, "qwen3", false, kArena, kOwn},
    {kDflash, "FA4", false, 1, "qwen3", false, kArena, kOwn},
    {kDflash, "", false, 1, "qwen3", false, kArena, kOwn},
    {kDflash, "", true, 4, "qwen3", false, kArena, kOwn},
    // Domino and P-EAGLE by the rule of DFlash.
    {kDomino, "TRTLLM", false, 1, "qwen3", false, kOwn, kOwn},
    {kDomino, "", false, 1, "qwen3", false, kArena, kOwn},
    {kPeagle, "TRTLLM", true, 1, "qwen3", false, kOwn, kOwn},
    {kPeagle, "", false, 1, "qwen3", false, kArena, kOwn},
    // DSpark: standalone a pool, whatever the back-end, under attention DP too. The in-checkpoint
    // one rolls a window inside the worker; kvpool gives it a pool.
    {kDspark, "", false, 1, "kimi_k3", false, kOwn, kOwn},
    {kDspark, "", true, 1, "kimi_k3", false, kOwn, kOwn},
    {kDspark, "TRTLLM", true, 2, "kimi_k3", false, kOwn, kOwn},
    {kDspark, "CUTEDSL", false, 1, "kimi_k3", false, kOwn, kOwn},
    {kDspark, "", false, 1, "kimi_k3", true, kArena, kOwn},
    {kDspark, "", true, 1, "kimi_k3", true, kArena, kOwn},
    // One-model drafters: no separate pool under attention DP, and in trtllm none for DeepSeek-V4
    // with several pipeline stages.
    {kEagle3, "", false, 1, "llama", false, kOwn, kOwn},
    {kEagle3, "", true, 1, "llama", false, kTarget, kTarget},
    {kEagle3, "", false, 2, "llama", false, kOwn, kOwn},
    {kEagle3, "", true, 2, "llama", false, kTarget, kTarget},
    {kMtp, "", false, 1, "deepseek_v3", false, kOwn, kOwn},
    {kMtp, "", true, 1, "deepseek_v3", false, kTarget, kTarget},
    {kMtp, "", false, 1, "deepseek_v4", false, kOwn, kOwn},
    {kMtp, "", false, 2, "deepseek_v4", false, kTarget, kOwn},
    {kMtp, "", false, 2, "deepseek_v3", false, kOwn, kOwn},
    // Models of their own: a pool; PARD's not under attention DP in trtllm.
    {kPard, "", false, 1, "llama", false, kOwn, kOwn},
    {kPard, "", true, 1, "llama", false, kTarget, kOwn},
    {kDraftTarget, "", false, 1, "llama", false, kOwn, kOwn},
    // Lookups keep nothing.
    {kNgram, "", false, 1, "llama", false, kNothing, kNothing},
    {kNgram, "TRTLLM", true, 2, "deepseek_v4", true, kNothing, kNothing},
    {kSuffixAutomaton, "", false, 1, "llama", false, kNothing, kNothing},
    {kSuffixAutomaton, "", true, 1, "llama", false, kNothing, kNothing},
};

}  // namespace

TEST_CASE("the table of draft pools") {
  for (const Row& row : kTable) {
    const DraftPoolQuestion question{.drafter = row.drafter,
                                     .backend = row.backend,
                                     .attention_data_parallel = row.attention_dp,
                                     .pipeline = row.pipeline,
                                     .target_model_type = row.model,
                                     .in_checkpoint = row.in_checkpoint};
    INFO(to_string(row.drafter) << " '" << row.backend << "' adp " << row.attention_dp << " pp "
                                << row.pipeline << ' ' << row.model << " in checkpoint "
                                << row.in_checkpoint);
    CHECK(draft_pool_kind(Profile::kTrtllm, question) == row.trtllm);
    CHECK(draft_pool_kind(Profile::kKvpool, question) == row.kvpool);
  }
}

TEST_CASE("kinds of draft pools have names") {
  CHECK(to_string(kOwn) == "own_pool");
  CHECK(to_string(kTarget) == "target_layers");
  CHECK(to_string(kArena) == "private_arena");
  CHECK(to_string(kNothing) == "none");
}

}  // namespace kvpool
