// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/kernel_capability.hpp>

#include <kvpool/core/checked.hpp>

#include "capability/kernel_match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace kvpool {
namespace {

/// True if the list has the value, or is empty and so accepts everything.
template <typename List, typename Value>
bool allows(const List& list, const Value& value) noexcept {
  return list.empty() || std::ranges::find(list, value) != list.end();
}

template <typename List, typename Value>
bool lists(const List& list, const Value& value) noexcept {
  return std::ranges::find(list, value) != list.end();
}

bool over(const std::optional<std::int64_t>& limit,
          const std::optional<std::int64_t>& value) noexcept {
  return limit.has_value() && value.has_value() && *value > *limit;
}

bool knows_heads(const KernelQuery& query) noexcept {
  return query.query_heads.count() > 0 && query.kv_heads.count() > 0;
}

/// Query heads against KV heads: below, at or above the ratio.
int compare_ratio(const KernelQuery& query, std::int64_t ratio) noexcept {
  // Head counts are small and untrusted: 128 bits cannot overflow.
  const auto query_heads = static_cast<CheckedInt::Wide>(query.query_heads.count());
  const auto expected = static_cast<CheckedInt::Wide>(query.kv_heads.count()) * ratio;
  return query_heads < expected ? -1 : (query_heads > expected ? 1 : 0);
}

/// `4 (64/16)`, or `64/15` when that is not a whole number.
std::string ratio_text(const KernelQuery& query) {
  const std::int64_t query_heads = query.query_heads.count();
  const std::int64_t kv_heads = query.kv_heads.count();
  return query_heads % kv_heads == 0
             ? fmt::format("{} ({}/{})", query_heads / kv_heads, query_heads, kv_heads)
             : fmt::format("{}/{}", query_heads, kv_heads);
}

std::string numbers(const std::vector<std::int64_t>& values) {
  // A long list, such as every multiple of 8, is told by its ends.
  constexpr std::size_t kLongest = 8;
  if (values.size() > kLongest) {
    return fmt::format("one of {} values from {} to {}", values.size(), values.front(),
                       values.back());
  }
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const std::int64_t value : values) {
    texts.push_back(std::to_string(value));
  }
  return join_alternatives(texts);
}

template <typename Enum>
std::string names(const std::vector<Enum>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const Enum value : values) {
    texts.emplace_back(to_string(value));
  }
  return join_alternatives(texts);
}

}  // namespace

std::string join_alternatives(const std::vector<std::string>& items, std::string_view last_word) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) {
      text += i + 1 == items.size() ? fmt::format(" {} ", last_word) : ", ";
    }
    text += items[i];
  }
  return text;
}

std::string if_the_gpu_is(const KernelCapability& row, const KernelQuery& query) {
  return hangs_on_architecture(row, query)
             ? ", if the GPU is " + join_alternatives(row.limits.architectures)
             : std::string{};
}

bool serves(const KernelCapability& row, PoolUser user) noexcept { return lists(row.serves, user); }

Mismatch find_mismatch(const KernelCapability& row, const KernelQuery& query) noexcept {
  const KernelLimits& limits = row.limits;
  if (!serves(row, query.user)) {
    return Mismatch::kUser;
  }
  if (!allows(row.model_families, query.model_family)) {
    return Mismatch::kModelFamily;
  }
  if (!query.architecture.empty() && !allows(limits.architectures, query.architecture)) {
    return Mismatch::kArchitecture;
  }
  if (limits.family.has_value() && *limits.family != query.family) {
    return Mismatch::kCacheFamily;
  }
  if (query.head_dim > 0 && !allows(limits.head_dims, query.head_dim)) {
    return Mismatch::kHeadDim;
  }
  if (lists(limits.excluded_head_dims, query.head_dim)) {
    return Mismatch::kExcludedHeadDim;
  }
  if (knows_heads(query) && limits.exact_head_ratio.has_value() &&
      compare_ratio(query, *limits.exact_head_ratio) != 0) {
    return Mismatch::kExactHeadRatio;
  }
  if (knows_heads(query) && limits.max_head_ratio.has_value() &&
      compare_ratio(query, *limits.max_head_ratio) > 0) {
    return Mismatch::kMaxHeadRatio;
  }
  if (!allows(limits.kv_dtypes, query.kv_dtype)) {
    return Mismatch::kKvDtype;
  }
  if (!allows(limits.masks, query.mask)) {
    return Mismatch::kMask;
  }
  if (over(limits.max_batch, query.batch)) {
    return Mismatch::kBatch;
  }
  if (over(limits.max_query_tokens, query.query_tokens)) {
    return Mismatch::kQueryTokens;
  }
  return Mismatch::kNone;
}

std::string describe_mismatch(Mismatch mismatch, const KernelCapability& row,
                              const KernelQuery& query) {
  const KernelLimits& limits = row.limits;
  switch (mismatch) {
    case Mismatch::kNone: return {};
    case Mismatch::kUser:
      return fmt::format("serves {}, not {}", names(row.serves), to_string(query.user));
    case Mismatch::kModelFamily:
      return fmt::format("is for {}, this is {}", join_alternatives(row.model_families),
                         query.model_family.empty() ? "another model" : query.model_family);
    case Mismatch::kArchitecture:
      return fmt::format("needs {}, this is {}", join_alternatives(limits.architectures),
                         query.architecture);
    case Mismatch::kCacheFamily:
      return fmt::format("reads a {} cache, this is {}", to_string(*limits.family),
                         to_string(query.family));
    case Mismatch::kHeadDim:
      return fmt::format("needs head dim {}, has {}", numbers(limits.head_dims), query.head_dim);
    case Mismatch::kExcludedHeadDim: return fmt::format("cannot run head dim {}", query.head_dim);
    case Mismatch::kExactHeadRatio:
      return fmt::format("needs {} query heads per KV head, has {}", *limits.exact_head_ratio,
                         ratio_text(query));
    case Mismatch::kMaxHeadRatio:
      return fmt::format("takes up to {} query heads per KV head, has {}", *limits.max_head_ratio,
                         ratio_text(query));
    case Mismatch::kKvDtype:
      return fmt::format("needs a {} cache, this is {}", names(limits.kv_dtypes),
                         to_string(query.kv_dtype));
    case Mismatch::kMask:
      return fmt::format("needs a {} mask, this is {}", names(limits.masks), to_string(query.mask));
    case Mismatch::kBatch:
      return fmt::format("takes up to {} requests, has {}", *limits.max_batch, *query.batch);
    case Mismatch::kQueryTokens:
      return fmt::format("takes up to {} query tokens, has {}", *limits.max_query_tokens,
                         *query.query_tokens);
  }
  return {};
}

std::string why_not(const KernelCapability& row, const KernelQuery& query) {
  return describe_mismatch(find_mismatch(row, query), row, query);
}

std::string_view to_string(PoolUser user) noexcept {
  switch (user) {
    case PoolUser::kTarget: return "target";
    case PoolUser::kMtp: return "mtp";
    case PoolUser::kEagle3: return "eagle3";
    case PoolUser::kDflash: return "dflash";
    case PoolUser::kDspark: return "dspark";
    case PoolUser::kDraftTarget: return "draft_target";
    case PoolUser::kPard: return "pard";
  }
  return "unknown";
}

std::string_view to_string(KernelRole role) noexcept {
  switch (role) {
    case KernelRole::kTargetDecode: return "target_decode";
    case KernelRole::kTargetPrefill: return "target_prefill";
    case KernelRole::kDraftBlock: return "draft_block";
    case KernelRole::kAppend: return "append";
    case KernelRole::kCopy: return "copy";
  }
  return "unknown";
}

std::string_view to_string(AttentionMask mask) noexcept {
  switch (mask) {
    case AttentionMask::kCausal: return "causal";
    case AttentionMask::kNonCausal: return "non_causal";
    case AttentionMask::kWindow: return "window";
  }
  return "unknown";
}

std::string_view to_string(AttentionFamily family) noexcept {
  switch (family) {
    case AttentionFamily::kKeyValue: return "key_value";
    case AttentionFamily::kLatent: return "latent";
  }
  return "unknown";
}

std::string_view to_string(Necessity necessity) noexcept {
  switch (necessity) {
    case Necessity::kRequired: return "required";
    case Necessity::kPreferred: return "preferred";
  }
  return "unknown";
}

std::string_view to_string(Evidence evidence) noexcept {
  switch (evidence) {
    case Evidence::kTestedHere: return "tested_here";
    case Evidence::kDeclared: return "declared";
  }
  return "unknown";
}

}  // namespace kvpool
