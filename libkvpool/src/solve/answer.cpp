// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/solve/answer.hpp>

#include <algorithm>
#include <array>

namespace kvpool {

std::string_view to_string(Question question) noexcept {
  switch (question) {
    case Question::kMaxModelLen: return "max_model_len";
    case Question::kMaxNumSeqs: return "max_num_seqs";
    case Question::kGpus: return "gpus";
    case Question::kGpuMemoryUtilization: return "gpu_memory_utilization";
    case Question::kKvCacheDtype: return "kv_cache_dtype";
    case Question::kPageSize: return "page_size";
    case Question::kDrafter: return "drafter";
    case Question::kNumDraftTokens: return "num_draft_tokens";
  }
  return "max_model_len";
}

std::span<const Question> all_questions() noexcept {
  static constexpr std::array kAll{Question::kMaxModelLen,  Question::kMaxNumSeqs,
                                   Question::kGpus,         Question::kGpuMemoryUtilization,
                                   Question::kKvCacheDtype, Question::kPageSize,
                                   Question::kDrafter,      Question::kNumDraftTokens};
  return kAll;
}

const Figure* Answer::find_figure(std::string_view name) const noexcept {
  const auto at = std::ranges::find(figures, name, &Figure::name);
  return at == figures.end() ? nullptr : &*at;
}

}  // namespace kvpool
