// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>

#include <string>
#include <utility>
#include <vector>

namespace kvpool::rows {

/// A required draft-block row that serves DSpark and DFlash.
inline KernelCapability draft_row(std::string name, PageSizeRule page_sizes) {
  return {.name = std::move(name),
          .serves = {PoolUser::kDflash, PoolUser::kDspark},
          .role = KernelRole::kDraftBlock,
          .page_sizes = std::move(page_sizes)};
}

/// A required row that serves the target.
inline KernelCapability target_row(std::string name, PageSizeRule page_sizes) {
  return {.name = std::move(name),
          .serves = {PoolUser::kTarget},
          .role = KernelRole::kTargetDecode,
          .page_sizes = std::move(page_sizes)};
}

/// Exactly these sizes.
inline PageSizeRule one_of(std::vector<std::int64_t> sizes) {
  return PageSizeRule{PageSizeRule::OneOf{std::move(sizes)}};
}

/// The known rows that serve DFlash or DSpark.
inline std::vector<KernelCapability> known_draft_rows() {
  std::vector<KernelCapability> rows;
  for (const KernelCapability& row : known_kernels()) {
    for (const PoolUser user : row.serves) {
      if (user == PoolUser::kDflash || user == PoolUser::kDspark) {
        rows.push_back(row);
        break;
      }
    }
  }
  return rows;
}

/// The known rows and these.
inline CapabilityRegistry registry_with(std::vector<KernelCapability> more) {
  CapabilityRegistry registry = CapabilityRegistry::with_known_kernels();
  for (KernelCapability& row : more) {
    if (!registry.add(std::move(row)).has_value()) {
      std::terminate();
    }
  }
  return registry;
}

/// One rank of a DSpark drafter with 96 query heads (or as given) and 16 KV heads at TP16.
inline KernelQuery k3_drafter(std::int64_t query_heads = 6, std::int64_t kv_heads = 1) {
  return {.user = PoolUser::kDspark,
          .model_family = "qwen3",
          .architecture = "sm_100",
          .family = AttentionFamily::kKeyValue,
          .head_dim = 64,
          .query_heads = Heads{query_heads},
          .kv_heads = Heads{kv_heads},
          .kv_dtype = KvDtype::kBf16,
          .mask = AttentionMask::kNonCausal,
          .query_tokens = 7};
}

/// One rank of a GQA target.
inline KernelQuery gqa_target(std::string architecture) {
  return {.user = PoolUser::kTarget,
          .model_family = "llama",
          .architecture = std::move(architecture),
          .family = AttentionFamily::kKeyValue,
          .head_dim = 128,
          .query_heads = Heads{32},
          .kv_heads = Heads{8}};
}

/// One rank of an MLA target.
inline KernelQuery mla_target(std::string architecture, KvDtype kv_dtype = KvDtype::kBf16,
                              std::string model_family = "deepseek_v3") {
  return {.user = PoolUser::kTarget,
          .model_family = std::move(model_family),
          .architecture = std::move(architecture),
          .family = AttentionFamily::kLatent,
          .head_dim = 576,
          .query_heads = Heads{16},
          .kv_heads = Heads{1},
          .kv_dtype = kv_dtype};
}

/// Ids of decisions, in order.
inline std::vector<std::string> ids(const std::vector<Decision>& decisions) {
  std::vector<std::string> found;
  for (const Decision& decision : decisions) {
    found.push_back(decision.id);
  }
  return found;
}

/// What a row said, or `(not asked)`.
inline std::string verdict_of(const std::vector<Verdict>& verdicts, std::string_view row) {
  for (const Verdict& verdict : verdicts) {
    if (verdict.row == row) {
      return verdict.verdict;
    }
  }
  return "(not asked)";
}

}  // namespace kvpool::rows
