// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/decision.hpp>
#include <kvpool/capability/page_size_rule.hpp>
#include <kvpool/core/kv_dtype.hpp>
#include <kvpool/core/units.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// Whose attention a kernel computes.
enum class PoolUser {
  kTarget,       ///< the model itself
  kMtp,          ///< next-token layers of the target
  kEagle3,       ///< one-model Eagle3 head
  kDflash,       ///< standalone block drafter; Domino and P-EAGLE too
  kDspark,       ///< standalone block drafter with a Markov head
  kDraftTarget,  ///< a small model of the target's family
  kPard,         ///< external parallel drafter
};

/// Stable lower-case name: `target`, `mtp`, `eagle3`, `dflash`, `dspark`, `draft_target`, `pard`.
[[nodiscard]] std::string_view to_string(PoolUser user) noexcept;

/// What a kernel does.
enum class KernelRole {
  kTargetDecode,   ///< attention of the target's newest tokens
  kTargetPrefill,  ///< attention of a prompt
  kDraftBlock,     ///< attention of a drafter's block of tokens
  kAppend,         ///< writing new tokens into pages
  kCopy,           ///< copying pages
};

/// Stable lower-case name: `target_decode`, `target_prefill`, `draft_block`, `append`, `copy`.
[[nodiscard]] std::string_view to_string(KernelRole role) noexcept;

/// Masks that a kernel can apply.
enum class AttentionMask {
  kCausal,     ///< a token sees itself and those before it
  kNonCausal,  ///< every token of a block sees the whole block
  kWindow,     ///< a token sees the last ones only
};

/// Stable lower-case name: `causal`, `non_causal`, `window`.
[[nodiscard]] std::string_view to_string(AttentionMask mask) noexcept;

/// What is cached for the attention that a kernel computes.
enum class AttentionFamily {
  kKeyValue,  ///< keys and values per KV head
  kLatent,    ///< MLA records
};

/// Stable lower-case name: `key_value`, `latent`.
[[nodiscard]] std::string_view to_string(AttentionFamily family) noexcept;

/// Whether an engine can do without a kernel.
enum class Necessity {
  kRequired,   ///< a page size that it refuses cannot be used
  kPreferred,  ///< the engine falls back to another kernel, at `cost_of_loss`
};

/// Stable lower-case name: `required`, `preferred`.
[[nodiscard]] std::string_view to_string(Necessity necessity) noexcept;

/// What a row rests on.
enum class Evidence {
  kTestedHere,  ///< a test of this project runs the kernel
  kDeclared,    ///< its source or its makers say so
};

/// Stable lower-case name: `tested_here`, `declared`.
[[nodiscard]] std::string_view to_string(Evidence evidence) noexcept;

/// Shape limits of a kernel. An empty list or an absent limit accepts everything.
struct KernelLimits {
  /// Family of caches.
  std::optional<AttentionFamily> family = {};
  /// Head dims of K (of the latent record for MLA: latent + rope).
  std::vector<std::int64_t> head_dims = {};
  /// Head dims that it cannot run, where it runs every other.
  std::vector<std::int64_t> excluded_head_dims = {};
  /// Exact ratio of query heads to KV heads.
  std::optional<std::int64_t> exact_head_ratio = {};
  /// Largest ratio of query heads to KV heads.
  std::optional<std::int64_t> max_head_ratio = {};
  /// Types of the query.
  std::vector<KvDtype> query_dtypes = {};
  /// Types of the cache.
  std::vector<KvDtype> kv_dtypes = {};
  /// Types of the output.
  std::vector<KvDtype> output_dtypes = {};
  /// Architectures, such as `sm_100`.
  std::vector<std::string> architectures = {};
  /// Masks.
  std::vector<AttentionMask> masks = {};
  /// Largest batch (requests).
  std::optional<std::int64_t> max_batch = {};
  /// Largest number of query tokens per request.
  std::optional<std::int64_t> max_query_tokens = {};
  /// Longest context in tokens.
  std::optional<Tokens> max_context = {};

  /// Field by field.
  friend bool operator==(const KernelLimits&, const KernelLimits&) = default;
};

/// Shape that a workspace is asked for: all that partial results, counters and the division of the
/// work among thread blocks can depend on. Lengths of sequences are not in it, so that one
/// workspace serves them all.
struct WorkspaceShape {
  /// Largest batch, in requests.
  std::int64_t batch = 0;
  /// Query tokens per request.
  std::int64_t query_tokens = 0;
  /// Query heads of one rank.
  std::int64_t query_heads = 0;
  /// KV heads of one rank; 1 for MLA.
  std::int64_t kv_heads = 0;
  /// Elements of one key row; latent and rope part for MLA.
  std::int64_t key_dim = 0;
  /// Elements of one output row.
  std::int64_t value_dim = 0;
  /// Multiprocessors of the GPU: a grid of resident thread blocks is a multiple of it.
  std::int64_t multiprocessors = 0;

  /// Field by field.
  friend bool operator==(const WorkspaceShape&, const WorkspaceShape&) = default;
};

/// One kernel and what it accepts, as a record. Rows are data: engines add their own.
struct KernelCapability {
  /// Unique name.
  std::string name = {};
  /// Library or engine that has the kernel.
  std::string provider = {};
  /// Versions of the provider for which the row holds.
  std::string versions = {};
  /// Kernel set that the row belongs to, `trtllm` or `kvpool`; empty (user rows): every set.
  std::string kernel_set = {};
  /// Back-end name as engines spell it (`--drafter-backend`), such as `TRTLLM`, `CUTEDSL`, `FA4`.
  std::string backend = {};
  /// Whom it serves.
  std::vector<PoolUser> serves = {};
  /// `model_type` values that it is limited to; empty: any model.
  std::vector<std::string> model_families = {};
  /// What it does.
  KernelRole role = KernelRole::kTargetDecode;
  /// Page sizes that it accepts.
  PageSizeRule page_sizes = {};
  /// Can read a smaller page inside a larger one.
  bool reads_sub_views = false;
  /// Can read pages whose stride is larger than their size.
  bool reads_strided_pages = true;
  /// Memory layout that it expects, such as `HND`, `latent`.
  std::string layout = {};
  /// Shape limits.
  KernelLimits limits = {};
  /// Ranges that were merely certified: evidence, not limits.
  std::string certified = {};
  /// Bytes of workspace for a shape; null when it needs none or the number is not known.
  Bytes (*workspace)(const WorkspaceShape&) = nullptr;
  /// Whether an engine can do without it.
  Necessity necessity = Necessity::kRequired;
  /// What losing it costs, when it is preferred.
  CostOfChoice cost_of_loss = {};
  /// What the row rests on.
  Evidence evidence = Evidence::kDeclared;
  /// Where the row's figures stand.
  std::string source = {};

  /// Field by field.
  friend bool operator==(const KernelCapability&, const KernelCapability&) = default;
};

/// One attention computation of a deployment, as the rows are asked about it. A figure of 0 is not
/// known and matches every row.
struct KernelQuery {
  /// Whose attention.
  PoolUser user = PoolUser::kTarget;
  /// `model_type` of the model that runs it; empty matches no row of a model family.
  std::string model_family = {};
  /// GPU architecture; empty when not known, which matches every row.
  std::string architecture = {};
  /// What is cached.
  AttentionFamily family = AttentionFamily::kKeyValue;
  /// K row elements (latent + rope for MLA).
  std::int64_t head_dim = 0;
  /// Query heads of one rank.
  Heads query_heads = {};
  /// KV heads of one rank.
  Heads kv_heads = {};
  /// Cache type.
  KvDtype kv_dtype = KvDtype::kBf16;
  /// Mask of the block: `kNonCausal` for block drafters without a window.
  AttentionMask mask = AttentionMask::kCausal;
  /// Requests, when known.
  std::optional<std::int64_t> batch = {};
  /// Query tokens per request, when known.
  std::optional<std::int64_t> query_tokens = {};
};

/// Why `row` would not run this computation, page size aside; empty when it would.
[[nodiscard]] std::string why_not(const KernelCapability& row, const KernelQuery& query);

}  // namespace kvpool
