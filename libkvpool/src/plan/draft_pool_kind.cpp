// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/plan/draft_pool_kind.hpp>

#include <kvpool/core/checked.hpp>

#include <algorithm>
#include <cctype>

namespace kvpool {
namespace {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

bool keeps_no_cache(DrafterKind kind) noexcept {
  return kind == DrafterKind::kNgram || kind == DrafterKind::kSuffixAutomaton;
}

bool is_block_drafter(DrafterKind kind) noexcept {
  return kind == DrafterKind::kDflash || kind == DrafterKind::kDspark ||
         kind == DrafterKind::kDomino || kind == DrafterKind::kPeagle;
}

/// Layers that come with the target's own checkpoint or extend its stack.
bool is_one_model(DrafterKind kind) noexcept {
  return kind == DrafterKind::kMtp || kind == DrafterKind::kEagle3;
}

/// TensorRT-LLM's DFlash worker reads the managed pool with the TRTLLM back-end only; VANILLA (its
/// default) and FA4 keep an arena of their own.
bool dflash_reads_the_pool(std::string_view backend) {
  return equal_ignoring_case(backend, "TRTLLM");
}

DraftPoolKind trtllm_kind(const DraftPoolQuestion& question) {
  switch (question.drafter) {
    case DrafterKind::kDflash:
    case DrafterKind::kDomino:
    case DrafterKind::kPeagle:
      return dflash_reads_the_pool(question.backend) ? DraftPoolKind::kOwnPool
                                                     : DraftPoolKind::kPrivateArena;
    case DrafterKind::kDspark:
      // The in-checkpoint variant rolls a window inside the worker.
      return question.in_checkpoint ? DraftPoolKind::kPrivateArena : DraftPoolKind::kOwnPool;
    default: break;
  }
  const bool deepseek_v4 = question.target_model_type == "deepseek_v4";
  const bool joins_target =
      question.attention_data_parallel || (deepseek_v4 && question.pipeline > 1);
  return joins_target ? DraftPoolKind::kTargetLayers : DraftPoolKind::kOwnPool;
}

}  // namespace

std::string_view to_string(DraftPoolKind kind) noexcept {
  switch (kind) {
    case DraftPoolKind::kOwnPool: return "own_pool";
    case DraftPoolKind::kTargetLayers: return "target_layers";
    case DraftPoolKind::kPrivateArena: return "private_arena";
    case DraftPoolKind::kNone: return "none";
  }
  return "none";
}

DraftPoolKind draft_pool_kind(Profile profile, const DraftPoolQuestion& question) {
  if (keeps_no_cache(question.drafter)) {
    return DraftPoolKind::kNone;
  }
  if (profile == Profile::kTrtllm) {
    return trtllm_kind(question);
  }
  if (is_block_drafter(question.drafter)) {
    return DraftPoolKind::kOwnPool;
  }
  const bool joins_target = is_one_model(question.drafter) && question.attention_data_parallel;
  return joins_target ? DraftPoolKind::kTargetLayers : DraftPoolKind::kOwnPool;
}

Bytes private_arena_bytes(const PageGeometry& page, std::int64_t slots, Tokens capacity) noexcept {
  const CheckedInt pages = CheckedInt{slots} * ceil_div(CheckedInt{capacity.count()},
                                                        CheckedInt{page.tokens_per_block.count()});
  return Bytes{(pages * page.page_bytes.count()).saturated()};
}

}  // namespace kvpool
