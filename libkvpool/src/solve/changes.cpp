// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "solve/changes.hpp"

#include <kvpool/core/kv_dtype.hpp>

#include "solve/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvpool {
namespace {

constexpr std::int64_t kHighUtilization = 950'000;
constexpr Tokens kSmallStep{2048};
constexpr std::int64_t kLargestTensor = 64;

bool is_wide(KvDtype dtype) {
  return dtype == KvDtype::kFp32 || dtype == KvDtype::kBf16 || dtype == KvDtype::kFp16;
}

/// Without figures, for what can only be said of estimated weights.
std::string with_note(std::string text, const PlanRequest& before, const PlanRequest& after) {
  if (before.budget.weights.has_value() && !after.budget.weights.has_value()) {
    text += " (with estimated weights)";
  }
  return text;
}

class ChangeList {
 public:
  explicit ChangeList(const PlanRequest& request) : request_{request} {}

  void add(ChangeKind kind, std::string text, PlanRequest request) {
    changes_.push_back({.kind = kind,
                        .text = with_note(std::move(text), request_, request),
                        .request = std::move(request)});
  }
  void add_settings() {
    const BudgetRequest& budget = request_.budget;
    if (budget.kv_budget.has_value()) {
      return;
    }
    if (budget.utilization_ppm < kHighUtilization) {
      PlanRequest changed = request_;
      changed.budget.utilization_ppm = kHighUtilization;
      add(ChangeKind::kSetting, "--gpu-memory-utilization 0.95", std::move(changed));
    }
    if (!budget.overhead.has_value() && request_.workload.max_batched_tokens > kSmallStep) {
      PlanRequest changed = request_;
      changed.workload.max_batched_tokens = kSmallStep;
      add(ChangeKind::kSetting, fmt::format("--max-num-batched-tokens {}", kSmallStep.count()),
          std::move(changed));
    }
  }
  void add_formats(const Resolution& resolution) {
    if (is_wide(resolution.target_formats.kv)) {
      PlanRequest changed = request_;
      changed.kv_dtype = KvDtype::kFp8E4m3;
      add(ChangeKind::kFormat, "--kv-cache-dtype fp8", std::move(changed));
    }
    if (resolution.draft_pool == DraftPoolKind::kOwnPool && is_wide(resolution.draft_formats.kv)) {
      PlanRequest changed = request_;
      changed.drafter->kv_dtype = KvDtype::kFp8E4m3;
      add(ChangeKind::kDraftFormat, "--draft-kv-cache-dtype fp8", std::move(changed));
    }
  }
  void add_less(const Resolution& resolution) {
    const std::int64_t sequences = resolution.sequences.count() / 2;
    if (sequences >= 1) {
      PlanRequest changed = request_;
      changed.workload.max_num_seqs = Sequences{sequences};
      add(ChangeKind::kFewer, fmt::format("--max-num-seqs {}", sequences), std::move(changed));
    }
    const std::int64_t length = resolution.max_model_len.count() / 2;
    if (length >= 1) {
      PlanRequest changed = request_;
      changed.workload.max_model_len = Tokens{length};
      add(ChangeKind::kShorter, fmt::format("--max-model-len {}", length), std::move(changed));
    }
    if (resolution.draft_pool != DraftPoolKind::kNone && request_.drafter.has_value()) {
      PlanRequest changed = request_;
      changed.drafter.reset();
      add(ChangeKind::kNoDrafter, "no drafter", std::move(changed));
    }
  }
  void add_attention_dp() {
    const Parallelism& p = request_.parallelism;
    if (has_latent_cache(request_.target) && !p.attention_data_parallel && p.decode_context == 1) {
      Parallelism apart = p;
      apart.attention_data_parallel = true;
      add(ChangeKind::kAttentionDp, "--attention-dp", with_parallelism(request_, apart));
    }
  }
  void add_gpus(const Resolution& resolution) {
    const Parallelism& p = request_.parallelism;
    if (p.tensor * 2 <= kLargestTensor) {
      Parallelism wider = p;
      wider.tensor *= 2;
      add(ChangeKind::kTensor, fmt::format("--tp {}", wider.tensor),
          with_parallelism(request_, wider));
    }
    if (p.pipeline * 2 <= static_cast<std::int64_t>(request_.target.layers.size())) {
      Parallelism longer = p;
      longer.pipeline *= 2;
      add(ChangeKind::kPipeline, fmt::format("--pp {}", longer.pipeline),
          with_parallelism(request_, longer));
    }
    if (resolution.sequences.count() > 1) {
      Parallelism more = p;
      more.data *= 2;
      PlanRequest changed = with_parallelism(request_, more);
      const std::int64_t each = ceil_div(resolution.sequences.count(), 2);
      changed.workload.max_num_seqs = Sequences{each};
      add(ChangeKind::kData, fmt::format("--dp {} (--max-num-seqs {} each)", more.data, each),
          std::move(changed));
    }
  }
  [[nodiscard]] std::vector<Change> take() && { return std::move(changes_); }

 private:
  const PlanRequest& request_;
  std::vector<Change> changes_;
};

}  // namespace

std::vector<Change> changes_of(const PlanRequest& request, const CapabilityRegistry& registry) {
  ChangeList list{request};
  const auto plan = plan_of(request, registry);
  if (!plan.has_value()) {
    return {};
  }
  list.add_settings();
  list.add_formats(plan->resolution);
  list.add_less(plan->resolution);
  list.add_attention_dp();
  list.add_gpus(plan->resolution);
  return std::move(list).take();
}

void add_reliefs(const PlanRequest& request, const CapabilityRegistry& registry,
                 const std::vector<ChangeKind>& kinds,
                 const std::function<std::optional<Outcome>(const Change&)>& ask,
                 const std::function<bool(std::int64_t, std::int64_t)>& better, Answer& answer) {
  for (const Change& change : changes_of(request, registry)) {
    if (std::ranges::find(kinds, change.kind) == kinds.end()) {
      continue;
    }
    const auto outcome = ask(change);
    if (outcome.has_value() && (!answer.found || better(outcome->value, answer.value))) {
      answer.reliefs.push_back({.change = change.text,
                                .value = outcome->value,
                                .chosen = outcome->chosen,
                                .gpus = gpus_of(change.request.parallelism)});
    }
  }
}

}  // namespace kvpool
