// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/capabilities.hpp>

#include <kvpool/core/version.hpp>
#include <kvpool/kernels/packed_attention.hpp>

#include "capability_rows.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpool::kernels {
namespace {

constexpr std::string_view kSource =
    "attention and append against a dense fp64 computation, for pages of 16, 32, 64 and 128 "
    "tokens, "
    "in tests/kernels";

KvDtype dtype_of(ElementType type) noexcept {
  switch (type) {
    case ElementType::kFp32: return KvDtype::kFp32;
    case ElementType::kBf16: return KvDtype::kBf16;
    case ElementType::kFp16: return KvDtype::kFp16;
    case ElementType::kFp8E4m3: return KvDtype::kFp8E4m3;
  }
  return KvDtype::kBf16;
}

/// Formats of a list of instances, each once.
template <typename Instances>
std::vector<KvDtype> dtypes_of(const Instances& instances) {
  std::vector<KvDtype> dtypes;
  for (const auto& instance : instances) {
    if (std::ranges::find(dtypes, dtype_of(instance.type)) == dtypes.end()) {
      dtypes.push_back(dtype_of(instance.type));
    }
  }
  return dtypes;
}

/// Multiples of the step up to `longest`.
std::vector<std::int64_t> dims_up_to(std::int32_t longest) {
  std::vector<std::int64_t> dims;
  for (std::int64_t dim = kDimStep; dim <= longest; dim += kDimStep) {
    dims.push_back(dim);
  }
  return dims;
}

/// GPUs that this build compiles kernels for, or would with CUDA, such as `sm_90`.
std::vector<std::string> compiled_architectures() {
  constexpr std::string_view kNames = KVPOOL_KERNEL_ARCHITECTURES;  // separated by commas
  std::vector<std::string> architectures;
  for (std::size_t begin = 0; begin < kNames.size();) {
    const std::size_t end = std::min(kNames.find(',', begin), kNames.size());
    architectures.emplace_back(kNames.substr(begin, end - begin));
    begin = end + 1;
  }
  return architectures;
}

/// Append and simple attention need no scratch memory: each thread block keeps its row to itself.
Bytes no_workspace(const WorkspaceShape& /*shape*/) { return Bytes{0}; }

/// Exchange and plans of packed attention; nothing for a shape that it does not run.
Bytes packed_workspace(const WorkspaceShape& shape) {
  const auto memory = packed_memory({.rows = shape.batch,
                                     .max_query_tokens = shape.query_tokens,
                                     .query_heads = shape.query_heads,
                                     .kv_heads = shape.kv_heads,
                                     .head_dim = shape.key_dim,
                                     .multiprocessors = shape.multiprocessors});
  return memory.has_value() ? memory->total() : Bytes{0};
}

KernelCapability bundled_row(std::string name, KernelRole role, std::vector<PoolUser> serves) {
  KernelCapability row;
  row.name = std::move(name);
  row.provider = "kvpool";
  row.versions = std::string{kVersion};
  row.kernel_set = std::string{to_string(KernelSet::kKvpool)};
  row.serves = std::move(serves);
  row.role = role;
  row.page_sizes = PageSizeRule{PageSizeRule::Any{}};
  row.layout = "HND, NHD, latent, page- or layer-major";
  row.workspace = no_workspace;
  row.necessity = Necessity::kRequired;
  row.evidence = Evidence::kTestedHere;
  row.source = std::string{kSource};
  row.limits.architectures = compiled_architectures();
  return row;
}

KernelCapability append_row(std::vector<PoolUser> serves) {
  KernelCapability row = bundled_row("kvpool_append", KernelRole::kAppend, std::move(serves));
  row.limits.head_dims = dims_up_to(kMaxDim);
  row.limits.kv_dtypes = dtypes_of(kAppendInstances);
  return row;
}

KernelCapability attention_row(std::string name, KernelRole role, std::vector<PoolUser> serves) {
  KernelCapability row = bundled_row(std::move(name), role, std::move(serves));
  std::int32_t longest = 0;
  for (const SimpleAttentionInstance& instance : kSimpleAttentionInstances) {
    longest = std::max(longest, instance.max_dim);
  }
  row.limits.head_dims = dims_up_to(longest);
  row.limits.kv_dtypes = dtypes_of(kSimpleAttentionInstances);
  row.limits.query_dtypes = row.limits.kv_dtypes;
  row.limits.output_dtypes = row.limits.kv_dtypes;
  row.limits.masks = {AttentionMask::kCausal, AttentionMask::kNonCausal, AttentionMask::kWindow};
  return row;
}

/// Rows of a step of packed attention, from the list of its instances.
constexpr std::int64_t kPackedStep = 16;

KernelCapability packed_row(std::string name, KernelRole role, std::vector<PoolUser> serves,
                            CostOfChoice cost_of_loss) {
  KernelCapability row = bundled_row(std::move(name), role, std::move(serves));
  row.page_sizes = PageSizeRule{PageSizeRule::MultiplesOf{.n = kPackedStep}};
  row.layout = "HND, NHD, page- or layer-major";
  row.limits.family = AttentionFamily::kKeyValue;
  for (const PackedInstance& instance : kPackedInstances) {
    if (std::ranges::find(row.limits.head_dims, instance.dim) == row.limits.head_dims.end()) {
      row.limits.head_dims.push_back(instance.dim);
    }
  }
  row.limits.kv_dtypes = dtypes_of(kPackedInstances);
  row.limits.query_dtypes = row.limits.kv_dtypes;
  row.limits.output_dtypes = row.limits.kv_dtypes;
  row.limits.masks = {AttentionMask::kCausal, AttentionMask::kNonCausal, AttentionMask::kWindow};
  row.certified = "1 to 16 query tokens a request, 1 to 8 and 16 query heads per KV head";
  row.workspace = packed_workspace;
  row.necessity = Necessity::kPreferred;
  row.cost_of_loss = std::move(cost_of_loss);
  row.source = "against a dense fp64 computation in tests/kernels; docs/kernels.md";
  return row;
}

/// Medians of graph replays on an H200 with a cold L2, against those of the fastest other kernel of
/// the field, which was measured on another H200.
KernelCapability packed_decode_row(std::vector<PoolUser> serves) {
  return packed_row("kvpool_packed_decode", KernelRole::kTargetDecode, std::move(serves),
                    {.value = 4,
                     .unit = "us_per_layer",
                     .conditions = "H200, batch 1, 32K tokens, 8 query on 2 KV heads of 64: 10.4 "
                                   "us, and 14.5 of the fastest other kernel measured"});
}

KernelCapability packed_block_row(std::vector<PoolUser> serves) {
  return packed_row(
      "kvpool_packed_block", KernelRole::kDraftBlock, std::move(serves),
      {.value = 10,
       .unit = "us_per_layer",
       .conditions = "H200, batch 16, 32K tokens, a block of 7, 8 query on 2 KV heads "
                     "of 64: 71.2 us, and 81.4 of the fastest other kernel measured"});
}

std::vector<KernelCapability> make_rows() {
  using enum PoolUser;
  const std::vector<PoolUser> token_by_token = {kTarget, kMtp, kEagle3, kDraftTarget, kPard};
  const std::vector<PoolUser> blocks = {kDflash, kDspark, kMtp, kEagle3, kDraftTarget, kPard};
  const std::vector<PoolUser> all = {kTarget, kMtp, kEagle3, kDflash, kDspark, kDraftTarget, kPard};
  return {append_row(all),
          attention_row("kvpool_simple_decode", KernelRole::kTargetDecode, token_by_token),
          attention_row("kvpool_simple_prefill", KernelRole::kTargetPrefill, token_by_token),
          attention_row("kvpool_simple_block", KernelRole::kDraftBlock, blocks),
          packed_decode_row(token_by_token),
          packed_block_row(blocks)};
}

}  // namespace

std::span<const KernelCapability> bundled_kernels() {
  static const std::vector<KernelCapability> kRows = make_rows();
  return kRows;
}

CapabilityRegistry registry_with_bundled_kernels() {
  CapabilityRegistry registry = CapabilityRegistry::with_known_kernels();
  for (const KernelCapability& row : bundled_kernels()) {
    // Names of bundled rows are no known row's: a test adds them all.
    static_cast<void>(registry.add(row));
  }
  return registry;
}

}  // namespace kvpool::kernels
