// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/capability_registry.hpp>

#include <utility>

namespace kvpool {
namespace {

using enum PoolUser;

constexpr std::int64_t kLatentHeadDim = 576;
constexpr std::int64_t kSmallLatentHeadDim = 320;

PageSizeRule one_of(std::vector<std::int64_t> sizes) {
  return PageSizeRule{PageSizeRule::OneOf{std::move(sizes)}};
}

PageSizeRule divisors_of(std::int64_t n) { return PageSizeRule{PageSizeRule::DivisorsOf{n}}; }

PageSizeRule any_size() { return PageSizeRule{PageSizeRule::Any{}}; }

PageSizeRule not_read() { return PageSizeRule{PageSizeRule::NotRead{}}; }

/// `step, 2·step, ..., last`.
std::vector<std::int64_t> multiples_up_to(std::int64_t step, std::int64_t last) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = step; value <= last; value += step) {
    values.push_back(value);
  }
  return values;
}

CostOfChoice unknown_cost() {
  return {.value = 0, .unit = "", .conditions = "unknown: no measurement is known"};
}

const std::vector<std::string>& datacenter_blackwell() {
  static const std::vector<std::string> kArchitectures = {"sm_100", "sm_103"};
  return kArchitectures;
}

/// Shape limits that the context and the decode form of trtllm-gen GQA share.
KernelLimits trtllm_gen_gqa_limits() {
  return {.family = AttentionFamily::kKeyValue,
          .max_head_ratio = 32,
          .query_dtypes = {KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp8E4m3},
          .kv_dtypes = {KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp8E4m3, KvDtype::kNvfp4},
          .output_dtypes = {KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp8E4m3},
          .architectures = datacenter_blackwell()};
}

/// The two forms of the Kimi-K3 drafter's own attention kernel.
KernelCapability k3_drafter_row(std::string name, CostOfChoice cost, std::string certified) {
  return {.name = std::move(name),
          .provider = "TensorRT-LLM",
          .versions = "read in September 2026 (PR 21046)",
          .kernel_set = "trtllm",
          .backend = "TRTLLM",
          .serves = {kDflash, kDspark},
          .role = KernelRole::kDraftBlock,
          .page_sizes = one_of({64}),
          .layout = "HND [pages, 2, kv_heads, 64, 64], page stride a multiple of 8 elements",
          .limits = {.family = AttentionFamily::kKeyValue,
                     .head_dims = {64},
                     .exact_head_ratio = 6,
                     .query_dtypes = {KvDtype::kBf16},
                     .kv_dtypes = {KvDtype::kBf16},
                     .output_dtypes = {KvDtype::kBf16},
                     .architectures = {"sm_100"},
                     .masks = {AttentionMask::kNonCausal},
                     .max_batch = 8,
                     .max_query_tokens = 8},
          .certified = std::move(certified),
          .necessity = Necessity::kPreferred,
          .cost_of_loss = std::move(cost),
          .source =
              "TensorRT-LLM PR 21046 and k3_drafter/op.py with its catalog page; preferred: "
              "the engine has stock kernels to fall back to. Serves any block drafter of "
              "these shapes: its Markov head does not reach the attention"};
}

/// Rows that read the pool of a standalone block drafter.
void add_draft_rows(std::vector<KernelCapability>& rows) {
  rows.push_back(
      {.name = "dspark_mla_trtllm_gen",
       .provider = "TensorRT-LLM",
       .versions = "read in September 2026 (PR 21046)",
       .kernel_set = "trtllm",
       .backend = "TRTLLM",
       .serves = {kDspark},
       .role = KernelRole::kDraftBlock,
       .page_sizes = one_of({32, 64}),
       .layout = "latent",
       .limits = {.family = AttentionFamily::kLatent,
                  .head_dims = {kLatentHeadDim},
                  .query_dtypes = {KvDtype::kBf16},
                  .kv_dtypes = {KvDtype::kBf16},
                  .architectures = datacenter_blackwell()},
       .certified = "stated for SM100; SM103 is taken along, as elsewhere in trtllm-gen",
       .source = "TensorRT-LLM PR 21046: intersection {32, 64}, 128 not accepted; required: the "
                 "back-end is picked at run time and has no other kernel for the block"});
  rows.push_back(
      {.name = "dspark_mla_cute_dsl",
       .provider = "TensorRT-LLM",
       .versions = "read in September 2026",
       .kernel_set = "trtllm",
       .backend = "CUTEDSL",
       .serves = {kDspark},
       .role = KernelRole::kDraftBlock,
       .page_sizes = divisors_of(128),
       .layout = "latent",
       .limits = {.family = AttentionFamily::kLatent,
                  .head_dims = {kLatentHeadDim},
                  .max_head_ratio = 128,
                  .query_dtypes = {KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp8E4m3},
                  .kv_dtypes = {KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp8E4m3},
                  .output_dtypes = {KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp8E4m3},
                  .architectures = datacenter_blackwell(),
                  .max_query_tokens = 4},
       .certified = "pages 32 and 64 tested; fewer than 128 heads only without a KV split",
       .source = "TensorRT-LLM mla_decode_fp16.can_implement (128 % page == 0, page != 1), the "
                 "default back-end of MLA DSpark; required: it has no other kernel for the block"});
  rows.push_back(
      {.name = "dflash_gqa_trtllm_gen",
       .provider = "TensorRT-LLM with FlashInfer",
       .versions = "read in September 2026 (7c7504c)",
       .kernel_set = "trtllm",
       .backend = "TRTLLM",
       .serves = {kDflash, kDspark},
       .role = KernelRole::kDraftBlock,
       .page_sizes = one_of({16, 32, 64}),
       .layout = "HND",
       .limits = {.family = AttentionFamily::kKeyValue,
                  .excluded_head_dims = {72, 80, 96},
                  .max_head_ratio = 32,
                  .query_dtypes = {KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp8E4m3},
                  .kv_dtypes = {KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp8E4m3},
                  .architectures = datacenter_blackwell(),
                  .masks = {AttentionMask::kCausal, AttentionMask::kNonCausal,
                            AttentionMask::kWindow}},
       .certified = "a window only with the causal mask",
       .source = "TensorRT-LLM dflash_attention.py, validate_dflash_trtllm_gen_runtime, and PR "
                 "20373; required: another size raises an error before the pool exists"});
  rows.push_back({.name = "dflash_fa4",
                  .provider = "TensorRT-LLM",
                  .versions = "read in September 2026",
                  .kernel_set = "trtllm",
                  .backend = "FA4",
                  .serves = {kDflash},
                  .role = KernelRole::kDraftBlock,
                  .page_sizes = not_read(),
                  .layout = "private arena with pages of 32 tokens",
                  .limits = {.family = AttentionFamily::kKeyValue,
                             .head_dims = multiples_up_to(8, 256),
                             .query_dtypes = {KvDtype::kBf16, KvDtype::kFp16},
                             .kv_dtypes = {KvDtype::kBf16, KvDtype::kFp16},
                             .architectures = {"sm_90"}},
                  .source = "TensorRT-LLM dflash_attention.py: the pool's page size is not read"});
  rows.push_back({.name = "dflash_vanilla",
                  .provider = "TensorRT-LLM with flash-attn",
                  .versions = "read in September 2026",
                  .kernel_set = "trtllm",
                  .backend = "VANILLA",
                  .serves = {kDflash},
                  .role = KernelRole::kDraftBlock,
                  .page_sizes = not_read(),
                  .layout = "private dense arena [slots, layers, context + block, kv_heads, dim]",
                  .limits = {.family = AttentionFamily::kKeyValue},
                  .source = "TensorRT-LLM modeling_dflash: the pool's page size is not read"});
  rows.push_back(k3_drafter_row(
      "k3_drafter_attn_qknorm",
      {.value = 306,
       .unit = "us_per_step",
       .conditions = "GPU work per step; 257 us end to end at batch 1; Kimi-K3 TP16, DSpark 7 "
                     "drafts, GB200"},
      "6/1 and 24/4 heads; contexts of 0 to 2041 tokens"));
  rows.push_back(k3_drafter_row(
      "k3_drafter_attn",
      {.value = 0,
       .unit = "",
       .conditions = "unknown: not measured apart from k3_drafter_attn_qknorm, of which it is the "
                     "form without QK norm"},
      "6/1 and 24/4 heads; contexts of 0 to 2041 tokens"));
  rows.push_back({.name = "dspark_mla_paged_gather",
                  .provider = "TensorRT-LLM",
                  .versions = "read in September 2026",
                  .kernel_set = "trtllm",
                  .backend = "",
                  .serves = {kDspark},
                  .role = KernelRole::kDraftBlock,
                  .page_sizes = any_size(),
                  .layout = "latent",
                  .limits = {.family = AttentionFamily::kLatent,
                             .head_dims = {kLatentHeadDim},
                             .query_dtypes = {KvDtype::kBf16},
                             .kv_dtypes = {KvDtype::kBf16}},
                  .necessity = Necessity::kPreferred,
                  .cost_of_loss = unknown_cost(),
                  .source = "TensorRT-LLM's test of _mla_paged_attention: a plain gather, whatever "
                            "the back-end; preferred: it is the fallback and refuses no page"});
}

/// Rows that read the target's pool as keys and values.
void add_key_value_rows(std::vector<KernelCapability>& rows) {
  KernelLimits decode = trtllm_gen_gqa_limits();
  decode.masks = {AttentionMask::kCausal, AttentionMask::kWindow};
  rows.push_back(
      {.name = "trtllm_gen_gqa_decode",
       .provider = "FlashInfer (TensorRT-LLM's FlashInferTrtllmGenFmha)",
       .versions = "TensorRT-LLM 05412d1, September 2026; older copies: pages of 32 and 16 query "
                   "heads per KV head only",
       .kernel_set = "trtllm",
       .backend = "TRTLLM",
       .serves = {kTarget, kMtp, kEagle3},
       .role = KernelRole::kTargetDecode,
       .page_sizes = one_of({16, 32, 64}),
       .layout = "HND [pages, kv_heads, page, dim]",
       .limits = decode,
       .certified = "fewer than 2^31 pages; beam width 1",
       .necessity = Necessity::kPreferred,
       .cost_of_loss = unknown_cost(),
       .source = "TensorRT-LLM PR 17935; FlashInfer PR 3020 and 3629; FlashInfer issue 4094: no "
                 "kernel for pages of 128; preferred: engines fall back to stock kernels"});
  KernelLimits context = trtllm_gen_gqa_limits();
  context.excluded_head_dims = {72, 80, 96};
  rows.push_back(
      {.name = "trtllm_gen_gqa_context",
       .provider = "FlashInfer (TensorRT-LLM's FlashInferTrtllmGenFmha)",
       .versions = "TensorRT-LLM 05412d1, September 2026; older copies: pages of 32 and 16 query "
                   "heads per KV head only",
       .kernel_set = "trtllm",
       .backend = "TRTLLM",
       .serves = {kTarget, kMtp, kEagle3},
       .role = KernelRole::kTargetPrefill,
       .page_sizes = one_of({16, 32, 64}),
       .layout = "HND [pages, kv_heads, page, dim]",
       .limits = context,
       .certified = "a window only with the causal mask; bf16 contexts of 1 to 4 requests are left "
                    "to the stock kernel, which starts sooner",
       .necessity = Necessity::kPreferred,
       .cost_of_loss = unknown_cost(),
       .source = "TensorRT-LLM PR 17935; FlashInfer issue 4347: pages above 128 give wrong output "
                 "in silence; preferred: engines fall back to stock kernels"});
  rows.push_back(
      {.name = "minimax_m3_msa",
       .provider = "TensorRT-LLM",
       .versions = "since PR 16021; read in September 2026",
       .kernel_set = "trtllm",
       .backend = "",
       .serves = {kTarget},
       .model_families = {"minimax_m3"},
       .role = KernelRole::kTargetDecode,
       .page_sizes = one_of({128}),
       .layout = "",
       .limits = {.family = AttentionFamily::kKeyValue, .architectures = datacenter_blackwell()},
       .source = "TensorRT-LLM PR 16021; required: the model's sparse blocks are its pages of 128 "
                 "tokens"});
  rows.push_back(
      {.name = "minimax_m3_eagle3",
       .provider = "TensorRT-LLM with FlashInfer",
       .versions = "since PR 16021; read in September 2026",
       .kernel_set = "trtllm",
       .backend = "",
       .serves = {kEagle3},
       .model_families = {"minimax_m3"},
       .role = KernelRole::kDraftBlock,
       .page_sizes = one_of({32}),
       .layout = "HND",
       .limits = {.family = AttentionFamily::kKeyValue, .architectures = datacenter_blackwell()},
       .source = "TensorRT-LLM PR 16021, FlashInfer issue 4094; required: draft pages of 128 "
                 "tokens lead to an illegal access or to a missing kernel"});
}

/// Rows that read the target's latent pool.
void add_latent_rows(std::vector<KernelCapability>& rows) {
  rows.push_back({.name = "flashmla_sm90",
                  .provider = "FlashMLA",
                  .versions = "FlashMLA 9241ae3; TensorRT-LLM read in September 2026",
                  .kernel_set = "trtllm",
                  .backend = "TRTLLM",
                  .serves = {kTarget, kMtp},
                  .role = KernelRole::kTargetDecode,
                  .page_sizes = one_of({64}),
                  .layout = "latent",
                  .limits = {.family = AttentionFamily::kLatent,
                             .head_dims = {kLatentHeadDim},
                             .kv_dtypes = {KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp8E4m3,
                                           KvDtype::kFp8DsMla},
                             .architectures = {"sm_90"}},
                  .source =
                      "TensorRT-LLM py_executor_creator and PR 13323: MLA with FlashMLA forces 64; "
                      "required: the kernel accepts no other page"});
  rows.push_back(
      {.name = "fp4_mla",
       .provider = "TensorRT-LLM",
       .versions = "read in September 2026",
       .kernel_set = "trtllm",
       .backend = "",
       .serves = {kTarget, kMtp},
       .role = KernelRole::kTargetDecode,
       .page_sizes = one_of({128}),
       .layout = "latent, page-major, opaque",
       .limits = {.family = AttentionFamily::kLatent,
                  .head_dims = {kLatentHeadDim},
                  .kv_dtypes = {KvDtype::kFp4Mla}},
       .certified = "back-ends triton and cutedsl; no partial reuse, no scratch pages of windows",
       .source = "TensorRT-LLM Fp4MlaV2CacheLayoutPolicy and PR 21046; required: the format is "
                 "defined for pages of 128 tokens. Architectures are not stated. It rejects hybrid "
                 "linear attention"});
  rows.push_back(
      {.name = "kimi_k3_fused_attention",
       .provider = "TensorRT-LLM",
       .versions = "read in September 2026",
       .kernel_set = "trtllm",
       .backend = "TRTLLM",
       .serves = {kTarget},
       .model_families = {"kimi_k3", "kimi_linear"},
       .role = KernelRole::kTargetDecode,
       .page_sizes = one_of({64}),
       .layout = "latent",
       .limits = {.family = AttentionFamily::kLatent,
                  .head_dims = {kLatentHeadDim},
                  .kv_dtypes = {KvDtype::kBf16, KvDtype::kFp8E4m3},
                  .architectures = datacenter_blackwell()},
       .necessity = Necessity::kPreferred,
       .cost_of_loss = unknown_cost(),
       .source = "TensorRT-LLM, Kimi-K3's fused path (the target of PR 21046 has pages of 64); "
                 "preferred: other MLA kernels serve the model too"});
  rows.push_back(
      {.name = "trtllm_gen_mla_decode_576",
       .provider = "FlashInfer (TensorRT-LLM's FlashInferTrtllmGenFmha)",
       .versions = "TensorRT-LLM 05412d1, September 2026; 1.3.0rc0 had pages of 32 only",
       .kernel_set = "trtllm",
       .backend = "TRTLLM",
       .serves = {kTarget, kMtp},
       .role = KernelRole::kTargetDecode,
       .page_sizes = one_of({16, 64}),
       .layout = "latent",
       .limits = {.family = AttentionFamily::kLatent,
                  .head_dims = {kLatentHeadDim},
                  .kv_dtypes = {KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp8E4m3},
                  .architectures = datacenter_blackwell()},
       .necessity = Necessity::kPreferred,
       .cost_of_loss = unknown_cost(),
       .source = "TensorRT-LLM SUPPORTED_, SLOWER_ and MISSING_MLA_GENERATION_KERNELS: of {16, 32, "
                 "64}, (576, 512, 32) is declined as slower than the fallback; preferred for that "
                 "fallback. TensorRT-LLM issue 10261 on the versions"});
  rows.push_back(
      {.name = "trtllm_gen_mla_decode_320",
       .provider = "FlashInfer (TensorRT-LLM's FlashInferTrtllmGenFmha)",
       .versions = "TensorRT-LLM 05412d1, September 2026",
       .kernel_set = "trtllm",
       .backend = "TRTLLM",
       .serves = {kTarget, kMtp},
       .role = KernelRole::kTargetDecode,
       .page_sizes = one_of({16, 32, 64}),
       .layout = "latent",
       .limits = {.family = AttentionFamily::kLatent,
                  .head_dims = {kSmallLatentHeadDim},
                  .kv_dtypes = {KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp8E4m3},
                  .architectures = datacenter_blackwell()},
       .necessity = Necessity::kPreferred,
       .cost_of_loss = unknown_cost(),
       .source = "TensorRT-LLM SUPPORTED_MLA_GENERATION_KERNELS, (320, 256); preferred: the engine "
                 "has a fallback"});
  // The engine uses this kernel where it was measured to win: (heads, query tokens) of (16, 2),
  // (16, 4) and (128, 1).
  for (const std::int64_t heads : {16, 128}) {
    rows.push_back({.name = "cute_dsl_mla_decode_" + std::to_string(heads) + "_heads",
                    .provider = "TensorRT-LLM",
                    .versions = "since PR 15138; read in September 2026",
                    .kernel_set = "trtllm",
                    .backend = "CUTEDSL",
                    .serves = {kTarget, kMtp},
                    .role = KernelRole::kTargetDecode,
                    .page_sizes = divisors_of(128),
                    .layout = "latent",
                    .limits = {.family = AttentionFamily::kLatent,
                               .head_dims = {kLatentHeadDim},
                               .exact_head_ratio = heads,
                               .kv_dtypes = {KvDtype::kBf16, KvDtype::kFp16, KvDtype::kFp8E4m3},
                               .architectures = datacenter_blackwell(),
                               .max_query_tokens = heads == 16 ? 4 : 1},
                    .certified = heads == 16 ? "2 and 4 query tokens" : "1 query token",
                    .necessity = Necessity::kPreferred,
                    .cost_of_loss = unknown_cost(),
                    .source =
                        "TensorRT-LLM PR 15138 with its list of shapes and mla_decode_fp16."
                        "can_implement; preferred: chosen for speed, the engine has a fallback"});
  }
  rows.push_back(
      {.name = "dsa_indexer",
       .provider = "TensorRT-LLM",
       .versions = "the DSA cache manager before V2",
       .kernel_set = "trtllm",
       .backend = "",
       .serves = {kTarget},
       .model_families = {"deepseek_v32", "glm_moe_dsa"},
       .role = KernelRole::kTargetDecode,
       .page_sizes = one_of({64}),
       .layout = "index keys: 128 fp8 and an fp32 scale a token",
       .limits = {.family = AttentionFamily::kLatent},
       .certified = "index dim 128",
       .necessity = Necessity::kPreferred,
       .cost_of_loss = unknown_cost(),
       .source = "TensorRT-LLM PR 15088; preferred: 64 is stated for the older manager only, and "
                 "a page of another size can hold index keys in pages of their own"});
}

std::vector<KernelCapability> build_known_kernels() {
  std::vector<KernelCapability> rows;
  add_draft_rows(rows);
  add_key_value_rows(rows);
  add_latent_rows(rows);
  return rows;
}

}  // namespace

std::span<const KernelCapability> known_kernels() {
  static const std::vector<KernelCapability> kRows = build_known_kernels();
  return kRows;
}

}  // namespace kvpool
