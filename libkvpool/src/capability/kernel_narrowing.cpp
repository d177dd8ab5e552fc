// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "capability/kernel_narrowing.hpp"

#include "capability/kernel_match.hpp"
#include "core/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace kvpool {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

/// Rows without a set belong to every set; `exact` starts from the set `trtllm`.
bool in_set(const KernelCapability& row, KernelSet set) {
  const std::string_view name =
      to_string(set == KernelSet::kKvpool ? KernelSet::kKvpool : KernelSet::kTrtllm);
  return row.kernel_set.empty() || row.kernel_set == name;
}

bool serves_one_of(const KernelCapability& row, std::span<const PoolUser> users) {
  return std::ranges::any_of(users, [&](PoolUser user) { return serves(row, user); });
}

/// The kernel that computes a user's attention.
KernelRole attention_role(PoolUser user) {
  switch (user) {
    case PoolUser::kDflash:
    case PoolUser::kDspark:
    case PoolUser::kPard: return KernelRole::kDraftBlock;
    case PoolUser::kTarget:
    case PoolUser::kMtp:
    case PoolUser::kEagle3:
    case PoolUser::kDraftTarget: return KernelRole::kTargetDecode;
  }
  return KernelRole::kTargetDecode;
}

/// Without an engine behind it, a kernel set has to bring the attention and the append itself, and
/// both have to run on this deployment.
void require_bundled_roles(NarrowedRows& asked, const KernelQuery& query) {
  const PoolUser user = query.user;
  std::vector<std::string> missing;
  std::string reasons;
  std::string condition;
  for (const KernelRole role : {attention_role(user), KernelRole::kAppend}) {
    bool runs = false;
    std::string reasons_here;
    std::string condition_here;
    for (const KernelCapability* row : asked.rows) {
      if (row->role == role && serves(*row, user)) {
        const Mismatch mismatch = find_mismatch(*row, query);
        if (mismatch == Mismatch::kNone) {
          // A row that runs everywhere leaves no condition.
          const std::string if_gpu = if_the_gpu_is(*row, query);
          condition_here = !runs || if_gpu.empty() ? if_gpu : condition_here;
          runs = true;
        }
        reasons_here += fmt::format("{} {} {}", reasons.empty() && reasons_here.empty() ? ":" : ";",
                                    row->name, describe_mismatch(mismatch, *row, query));
      }
    }
    if (!runs) {
      missing.emplace_back(to_string(role));
      reasons += reasons_here;
    }
    condition = condition.empty() ? condition_here : condition;
  }
  if (!missing.empty()) {
    asked.refusal =
        Refusal{.id = std::string{kKernelSetId},
                .what = fmt::format("the kernel set kvpool has no row for {} of {}{}",
                                    join_alternatives(missing, "and"), to_string(user), reasons),
                .accepted = {std::string{to_string(KernelSet::kTrtllm)},
                             std::string{to_string(KernelSet::kExact)}},
                .least_that_works = "--kernel-set trtllm, or rows for them with --kernels FILE"};
    return;
  }
  asked.decisions.push_back({.id = std::string{kKernelSetId},
                             .pool = std::string{pool_of(user)},
                             .chosen = std::string{to_string(KernelSet::kKvpool)},
                             .instead_of = std::string{to_string(KernelSet::kTrtllm)},
                             .reason = "asked for: the bundled kernels' rows decide" + condition});
}

std::vector<std::string> backends_of(RowSpan rows) {
  std::vector<std::string> backends;
  for (const KernelCapability* row : rows) {
    if (!row->backend.empty()) {
      backends.push_back(row->backend);
    }
  }
  std::ranges::sort(backends);
  const auto repeated = std::ranges::unique(backends);
  backends.erase(repeated.begin(), repeated.end());
  return backends;
}

/// Why a row would not run the cache of the query on its GPU; nothing when it may. Batch and tokens
/// of a step change from step to step, and rows of one kind of block drafter stand for both.
std::string why_not_here(const KernelCapability& row, KernelQuery query) {
  query.batch.reset();
  query.query_tokens.reset();
  if (!serves(row, query.user) && !row.serves.empty()) {
    query.user = row.serves.front();
  }
  return describe_mismatch(find_mismatch(row, query), row, query);
}

/// Back-ends with a row that runs the query.
std::vector<std::string> running_backends(RowSpan rows, const KernelQuery& query) {
  RowList running;
  for (const KernelCapability* row : rows) {
    if (why_not_here(*row, query).empty()) {
      running.push_back(row);
    }
  }
  return backends_of(running);
}

/// A back-end none of whose rows runs here. An engine has no other kernel for the block.
Refusal refuse_backend(const NarrowedRows& asked, const std::string& backend,
                       const KernelQuery& query) {
  std::vector<std::string> reasons;
  Refusal refusal{.id = std::string{kBackendId},
                  .accepted = running_backends(asked.rows, query),
                  .least_that_works = "no back-end named"};
  for (const KernelCapability* row : asked.rows) {
    const std::string reason = why_not_here(*row, query);
    if (row->backend == backend) {
      reasons.push_back(row->name + " " + reason);
    }
    refusal.verdicts.push_back({.row = row->name,
                                .accepts = row->page_sizes.text(),
                                .verdict = reason.empty() ? "runs, of back-end " + row->backend
                                                          : "would not run: " + reason});
  }
  refusal.what =
      fmt::format("no row of the back-end {} runs here: {}", backend, fmt::join(reasons, "; "));
  if (!refusal.accepted.empty()) {
    refusal.least_that_works =
        "back-end " + join_alternatives(refusal.accepted) + ", or none named";
  }
  return refusal;
}

/// Rows that name no back-end run under every one. A block drafter's are narrowed to the rows that
/// run here, too: its back-end has no stock kernels to fall back to.
void keep_backend(NarrowedRows& asked, std::string_view backend, const KernelQuery& query) {
  const PoolUser user = query.user;
  const bool block_drafter = user == PoolUser::kDflash || user == PoolUser::kDspark;
  const std::vector<std::string> known = backends_of(asked.rows);
  const auto spelled = std::ranges::find_if(
      known, [&](const std::string& name) { return equal_in_any_case(name, backend); });
  if (known.empty()) {
    asked.decisions.push_back(
        {.id = std::string{kKernelSetId},
         .pool = std::string{pool_of(user)},
         .chosen = "every row",
         .instead_of = format_excerpt(backend),
         .reason = fmt::format("no row of {} names a back-end", to_string(user))});
    return;
  }
  if (spelled == known.end()) {
    asked.refusal =
        Refusal{.id = std::string{kBackendId},
                .what = fmt::format("no row of {} is of a back-end '{}'", to_string(user),
                                    format_excerpt(backend)),
                .accepted = known,
                .least_that_works = "back-end " + join_alternatives(known) + ", or none named"};
    return;
  }
  if (const std::vector<std::string> running = running_backends(asked.rows, query);
      block_drafter && std::ranges::find(running, *spelled) == running.end()) {
    asked.refusal = refuse_backend(asked, *spelled, query);
    return;
  }
  Decision decision{.id = std::string{kKernelSetId},
                    .pool = std::string{pool_of(user)},
                    .chosen = *spelled,
                    .instead_of = "every back-end"};
  RowList kept;
  for (const KernelCapability* row : asked.rows) {
    std::string verdict = "asked";
    if (!row->backend.empty() && !equal_in_any_case(row->backend, backend)) {
      verdict = "of back-end " + row->backend;
    } else if (const std::string reason = why_not_here(*row, query);
               block_drafter && !reason.empty()) {
      verdict = "would not run: " + reason;
    } else {
      kept.push_back(row);
      verdict += if_the_gpu_is(*row, query);
    }
    decision.verdicts.push_back(
        {.row = row->name, .accepts = row->page_sizes.text(), .verdict = std::move(verdict)});
  }
  decision.reason = fmt::format("the engine is told to use {}: {} of {} rows are asked", *spelled,
                                kept.size(), asked.rows.size());
  asked.rows = std::move(kept);
  asked.decisions.push_back(std::move(decision));
}

}  // namespace

std::string_view pool_of(PoolUser user) noexcept {
  return user == PoolUser::kTarget ? "target" : "draft";
}

NarrowedRows rows_to_ask(const CapabilityRegistry& registry, const PageSizeQuestion& question,
                         std::span<const PoolUser> users) {
  NarrowedRows asked;
  for (const KernelCapability& row : registry.rows()) {
    if (in_set(row, question.kernel_set) && serves_one_of(row, users)) {
      asked.rows.push_back(&row);
    }
  }
  if (question.kernel_set == KernelSet::kKvpool) {
    require_bundled_roles(asked, question.query);
  }
  if (!question.backend.empty() && !asked.refusal.has_value()) {
    keep_backend(asked, question.backend, question.query);
  }
  return asked;
}

void keep_rows_that_run(NarrowedRows& asked, const KernelQuery& query) {
  Decision decision{.id = std::string{kKernelSetId},
                    .pool = std::string{pool_of(query.user)},
                    .chosen = std::string{to_string(KernelSet::kExact)},
                    .instead_of = std::string{to_string(KernelSet::kTrtllm)}};
  RowList kept;
  std::size_t unknown = 0;
  for (const KernelCapability* row : asked.rows) {
    const Mismatch mismatch = find_mismatch(*row, query);
    if (mismatch == Mismatch::kNone) {
      kept.push_back(row);
      unknown += hangs_on_architecture(*row, query) ? 1U : 0U;
    }
    decision.verdicts.push_back(
        {.row = row->name,
         .accepts = row->page_sizes.text(),
         .verdict = mismatch == Mismatch::kNone
                        ? "runs" + if_the_gpu_is(*row, query)
                        : "would not run: " + describe_mismatch(mismatch, *row, query)});
  }
  decision.reason = fmt::format("asked for: {} of {} rows run on this deployment",
                                kept.size() - unknown, asked.rows.size());
  if (unknown > 0) {
    decision.reason += fmt::format(
        ", and {} more might: they are asked, too, because the GPU is not stated", unknown);
  }
  asked.rows = std::move(kept);
  asked.decisions.push_back(std::move(decision));
}

}  // namespace kvpool
