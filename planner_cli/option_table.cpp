// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "option_names.hpp"

#include <algorithm>
#include <cstddef>

namespace kvpool::cli {
namespace {

using enum OptionId;

constexpr CommandSet kPlanning{Command::kPlan, Command::kExplain, Command::kKernels,
                               Command::kSolve, Command::kSweep};
constexpr CommandSet kKernelsOnly{Command::kKernels};
constexpr CommandSet kPlanOnly{Command::kPlan};
constexpr CommandSet kVerifyOnly{Command::kVerify};
constexpr CommandSet kLintOnly{Command::kLint};
constexpr CommandSet kSolveOnly{Command::kSolve};
constexpr CommandSet kSweepOnly{Command::kSweep};
constexpr CommandSet kWithLengths{Command::kPlan, Command::kExplain, Command::kSolve};
constexpr CommandSet kWithGpus{Command::kPlan, Command::kExplain, Command::kKernels, Command::kLint,
                               Command::kGpus, Command::kSolve,   Command::kSweep};
constexpr CommandSet kWithJson{Command::kSolve, Command::kSweep,   Command::kDiff,
                               Command::kPlan,  Command::kKernels, Command::kVerify,
                               Command::kLint,  Command::kModels,  Command::kGpus};

constexpr std::string_view kSpread = "Parallelism";
constexpr std::string_view kCache = "Cache and workload";
constexpr std::string_view kMemory = "Memory of one GPU";
constexpr std::string_view kDraft = "Drafter";
constexpr std::string_view kRows = "Kernels and engine";
constexpr std::string_view kAsk = "Question";
constexpr std::string_view kInOut = "Input and output";

constexpr auto kSpecs = std::to_array<OptionSpec>({
    {kTp,
     kSpread,
     {"tp", "tensor-parallel-size", "tp-size", "tensor-parallel"},
     Arity::kOne,
     "N",
     "tensor parallel size (default 1)",
     kPlanning},
    {kPp,
     kSpread,
     {"pp", "pipeline-parallel-size", "pp-size", "pipeline-parallel"},
     Arity::kOne,
     "N",
     "pipeline stages (default 1)",
     kPlanning},
    {kDp,
     kSpread,
     {"dp", "data-parallel-size", "dp-size", "data-parallel"},
     Arity::kOne,
     "N",
     "independent replicas (default 1); one is planned",
     kPlanning},
    {kAttentionDp,
     kSpread,
     {"attention-dp", "enable-attention-dp", "enable-dp-attention"},
     Arity::kFlag,
     "",
     "every rank keeps all KV heads of its own sequences",
     kPlanning},
    {kDcp,
     kSpread,
     {"dcp", "decode-context-parallel-size", "dcp-size", "cp-size"},
     Arity::kOne,
     "N",
     "ranks over which the tokens of a sequence are dealt out",
     kPlanning},
    {kEp,
     kSpread,
     {"ep", "expert-parallel-size", "ep-size", "moe-expert-parallel-size"},
     Arity::kOne,
     "N",
     "expert parallel size (weights only)",
     kPlanning},

    {kKvCacheDtype,
     kCache,
     {"kv-cache-dtype", "kv-dtype"},
     Arity::kOne,
     "DTYPE",
     "bf16, fp8 (fp8_e4m3), int8 (int8_per_token_head), fp4 (nvfp4), fp8_ds_mla,\n...; auto: the "
     "checkpoint's",
     kPlanning,
     "@dtype"},
    {kPageSize,
     kCache,
     {"page-size", "block-size", "tokens-per-block"},
     Arity::kOne,
     "TOKENS",
     "page of the target's pool: kept or refused, never moved",
     kPlanning},
    {kMaxModelLen,
     kCache,
     {"max-model-len", "context-length", "max-seq-len"},
     Arity::kOne,
     "TOKENS",
     "longest sequence: 32k is 32,000 and 32K is 32,768, 1m and 1M likewise;\nauto: the config's "
     "maximum",
     kPlanning},
    {kMaxNumSeqs,
     kCache,
     {"max-num-seqs", "max-running-requests", "max-batch-size"},
     Arity::kOne,
     "N",
     "sequences at the same time (default 1); under attention DP, of one rank",
     kPlanning},
    {kMaxNumBatchedTokens,
     kCache,
     {"max-num-batched-tokens", "chunked-prefill-size", "max-num-tokens"},
     Arity::kOne,
     "TOKENS",
     "tokens of one step over all sequences (default 8192)",
     kPlanning},
    {kLayout,
     kCache,
     {"layout"},
     Arity::kOne,
     "NAME",
     "page_major_hnd (default), page_major_nhd, layer_major_hnd, layer_major_nhd",
     kPlanning,
     "page_major_hnd page_major_nhd layer_major_hnd layer_major_nhd"},
    {kReservedPages,
     kCache,
     {"reserved-pages"},
     Arity::kOne,
     "N",
     "pages at the start of each pool that no sequence gets (default 1)",
     kPlanning},

    {kGpu,
     kMemory,
     {"gpu"},
     Arity::kOne,
     "NAME",
     "h100, h200, b200, gb200, ... (kvplan gpus)",
     kPlanning,
     "@gpu"},
    {kGpuMemory,
     kMemory,
     {"gpu-memory"},
     Arity::kOne,
     "SIZE",
     "memory that a process sees (139.8GiB; GB is 10^9, GiB is 2^30)",
     kPlanning},
    {kGpuMemoryUtilization,
     kMemory,
     {"gpu-memory-utilization"},
     Arity::kOne,
     "FRACTION",
     "share of it that may be used, above 0 up to 1 (default 0.92)",
     kPlanning},
    {kKvBudget,
     kMemory,
     {"kv-budget", "kv-cache-memory-bytes", "max-gpu-total-bytes"},
     Arity::kOne,
     "SIZE",
     "bytes that kvpool owns: nothing above them is looked at",
     kPlanning},
    {kWeights,
     kMemory,
     {"weights"},
     Arity::kOne,
     "SIZE",
     "weights of one GPU, drafter included (default: from the checkpoint's files,\nelse estimated)",
     kPlanning},
    {kOverhead,
     kMemory,
     {"overhead"},
     Arity::kOne,
     "SIZE",
     "context, activations, graphs, communication of one GPU (default: assumed)",
     kPlanning},
    {kGranularity,
     kMemory,
     {"granularity"},
     Arity::kOne,
     "SIZE",
     "unit in which memory is mapped (default: the GPU's)",
     kPlanning},
    {kGpus,
     kMemory,
     {"gpus"},
     Arity::kRepeated,
     "FILE",
     "TOML file with further GPUs; may be given again",
     kWithGpus,
     "@file"},
    {kHostEngine,
     kMemory,
     {"host-engine"},
     Arity::kOne,
     "NAME[@VERSION]",
     "engine that embeds kvpool, whose overheads are assumed: vllm, sglang,\ntrtllm (vllm@0.20)",
     kPlanning,
     "vllm sglang trtllm"},
    {kActivations,
     kMemory,
     {"activations"},
     Arity::kOne,
     "SIZE",
     "peak of activations in one step, or a range: 2GiB..5GiB, 2GiB..3GiB..5GiB",
     kPlanning},
    {kCudaContext,
     kMemory,
     {"cuda-context"},
     Arity::kOne,
     "SIZE",
     "CUDA context of the process, or a range",
     kPlanning},
    {kCudaGraphs,
     kMemory,
     {"cuda-graphs"},
     Arity::kOne,
     "SIZE",
     "captured graphs, or a range",
     kPlanning},
    {kCommunication,
     kMemory,
     {"communication"},
     Arity::kOne,
     "SIZE",
     "communicators of more than one GPU, or a range",
     kPlanning},
    {kCoLocated,
     kMemory,
     {"co-located"},
     Arity::kRepeated,
     "NAME=SIZE",
     "another process on the same GPU and what it takes; may be given again",
     kPlanning},

    {kDrafter,
     kDraft,
     {"drafter", "speculative-draft-model-path", "speculative-model"},
     Arity::kOne,
     "MODEL",
     "config.json, checkpoint directory or name of the drafter",
     kPlanning,
     "@model"},
    {kDrafterKind,
     kDraft,
     {"drafter-kind", "speculative-algorithm"},
     Arity::kOne,
     "KIND",
     "mtp, eagle3, dflash, dspark, domino, peagle, draft_target, pard,\nngram, suffix_automaton",
     kPlanning,
     "mtp eagle3 dflash dspark domino peagle draft_target pard ngram suffix_automaton"},
    {kDrafterBackend,
     kDraft,
     {"drafter-backend"},
     Arity::kOne,
     "NAME",
     "back-end that the engine is told to use (TRTLLM, CUTEDSL, FA4, VANILLA)",
     kPlanning,
     "TRTLLM CUTEDSL FA4 VANILLA"},
    {kNumDraftTokens,
     kDraft,
     {"num-draft-tokens", "num-speculative-tokens", "max-draft-len"},
     Arity::kOne,
     "N",
     "tokens drafted in a step (default: the drafter's block, else 1)",
     kPlanning},
    {kDraftKvCacheDtype,
     kDraft,
     {"draft-kv-cache-dtype", "draft-kv-dtype"},
     Arity::kOne,
     "DTYPE",
     "format of the draft pool; the target's never makes it cheaper",
     kPlanning,
     "@dtype"},
    {kDraftPageSize,
     kDraft,
     {"draft-page-size", "draft-block-size", "draft-tokens-per-block"},
     Arity::kOne,
     "TOKENS",
     "page of the draft pool: kept or refused",
     kPlanning},

    {kKernelSet,
     kRows,
     {"kernel-set"},
     Arity::kOne,
     "SET",
     "trtllm (default), exact: only rows that run here, kvpool: the bundled kernels",
     kPlanning,
     "trtllm exact kvpool"},
    {kKernels,
     kRows,
     {"kernels"},
     Arity::kRepeated,
     "FILE",
     "TOML file with further kernel rows; may be given again",
     kPlanning,
     "@file"},
    {kSelfTest,
     kRows,
     {"self-test"},
     Arity::kFlag,
     "",
     "run the bundled kernels on a GPU",
     kKernelsOnly},
    {kEngine, kRows, {"engine"}, Arity::kOne, "NAME", "whose rules: kvpool", kPlanning, "kvpool"},
    {kEngineVersion,
     kRows,
     {"engine-version"},
     Arity::kOne,
     "VERSION",
     "version of the engine",
     kPlanning},

    {kFind,
     kAsk,
     {"find"},
     Arity::kRepeated,
     "WHAT",
     "option to solve for: max-model-len, max-num-seqs, gpus, gpu-memory-utilization,\n"
     "kv-cache-dtype, page-size, drafter, num-draft-tokens (default: all that apply)",
     kSolveOnly,
     "max-model-len max-num-seqs gpus gpu-memory-utilization kv-cache-dtype page-size drafter "
     "num-draft-tokens"},
    {kLengths,
     kAsk,
     {"lengths"},
     Arity::kOne,
     "MIX",
     "lengths of the sequences: p50=4k,p90=32k,max=128k, or a file with one a line",
     kWithLengths,
     "@file"},
    {kCandidate,
     kAsk,
     {"candidate"},
     Arity::kRepeated,
     "PATH",
     "drafter to choose from; may be given again",
     kSolveOnly,
     "@model"},
    {kMaxGpus,
     kAsk,
     {"max-gpus"},
     Arity::kOne,
     "N",
     "most GPUs that are looked at (default 256)",
     kSolveOnly},
    {kOver,
     kAsk,
     {"over"},
     Arity::kRepeated,
     "OPTION=VALUES",
     "values of an option: a,b,c or FROM:TO:*FACTOR or FROM:TO:+STEP; each --over\nmultiplies the "
     "points",
     kSweepOnly},
    {kFormat,
     kAsk,
     {"format"},
     Arity::kOne,
     "FORMAT",
     "table (default), csv, json or svg",
     kSweepOnly,
     "table csv json svg"},
    {kChartX,
     kAsk,
     {"x"},
     Arity::kOne,
     "OPTION",
     "svg: option along the bottom (default: the --over with the most numbers)",
     kSweepOnly},
    {kChartY,
     kAsk,
     {"y"},
     Arity::kOne,
     "FIGURE",
     "svg: tokens (default), sequences, max-len, kv-budget, bytes-per-token or missing",
     kSweepOnly,
     "tokens sequences max-len kv-budget bytes-per-token missing"},
    {kJobs,
     kAsk,
     {"jobs"},
     Arity::kOne,
     "N",
     "threads (default: as many as the machine runs at the same time)",
     kSweepOnly},

    {kDeployment,
     kInOut,
     {"deployment"},
     Arity::kOne,
     "FILE",
     "TOML file with these options as keys; the command line wins",
     kPlanning,
     "@file"},
    {kAllocations,
     kInOut,
     {"allocations"},
     Arity::kOne,
     "FILE",
     "JSON array of {pool, address, bytes} that an engine allocated",
     kVerifyOnly,
     "@file"},
    {kVerifyOnGpu,
     kInOut,
     {"verify-on-gpu"},
     Arity::kFlag,
     "",
     "allocate the plan on GPU 0 and read its pools back with kernels",
     kPlanOnly},
    {kStage,
     kInOut,
     {"stage"},
     Arity::kOne,
     "N",
     "pipeline stage to compare, from 0 (default: the stage that holds the fewest tokens)",
     kVerifyOnly},
    {kAllow,
     kInOut,
     {"allow"},
     Arity::kRepeated,
     "KIND",
     "findings that are no fault: not_understood, contradictory, defaulted",
     kLintOnly,
     "not_understood contradictory defaulted"},
    {kJson, kInOut, {"json"}, Arity::kFlag, "", "one JSON document on standard output", kWithJson},
});

/// An option of an engine, and what to do instead.
struct ForeignOption {
  std::string_view name;
  std::string_view advice;
};

constexpr auto kForeign = std::to_array<ForeignOption>({
    {"mem-fraction-static",
     "SGLang's fraction is of what is free after loading; give --gpu-memory-utilization (of the "
     "total) or --kv-budget"},
    {"free-gpu-memory-fraction",
     "TensorRT-LLM's fraction is of what is free after loading; give --gpu-memory-utilization (of "
     "the total) or --kv-budget"},
    {"max-total-tokens", "give the memory instead: --kv-budget"},
    {"max-tokens", "give the memory instead: --kv-budget"},
    {"speculative-config", "give --drafter, --drafter-kind and --num-draft-tokens"},
    {"enable-expert-parallel", "give the number of ranks: --ep N"},
    {"hicache-ratio", "host tiers are not in this version"},
    {"host-cache-size", "host tiers are not in this version"},
    {"kv-cache-dtype-skip-layers",
     "one format covers a pool; mixed formats are not in this version"},
    {"mamba-full-memory-ratio", "states and pages are split by the sequences: --max-num-seqs"},
    {"swa-full-tokens-ratio", "windows and full layers are split by the length: --max-model-len"},
});

/// `_` reads as `-`.
[[nodiscard]] bool same_name(std::string_view typed, std::string_view spelling) noexcept {
  return std::ranges::equal(typed, spelling,
                            [](char a, char b) { return (a == '_' ? '-' : a) == b; });
}

}  // namespace

std::span<const OptionSpec> option_specs() noexcept { return kSpecs; }

const OptionSpec& option_spec(OptionId id) noexcept {
  return *std::ranges::find(kSpecs, id, &OptionSpec::id);
}

const OptionSpec* find_option(std::string_view name, Command command) noexcept {
  for (const OptionSpec& spec : kSpecs) {
    if (!spec.serves(command)) {
      continue;
    }
    for (const std::string_view spelling : spec.spellings) {
      if (!spelling.empty() && same_name(name, spelling)) {
        return &spec;
      }
    }
  }
  return nullptr;
}

std::vector<std::string_view> spellings_of(Command command) {
  std::vector<std::string_view> names;
  for (const OptionSpec& spec : kSpecs) {
    for (const std::string_view spelling : spec.spellings) {
      if (spec.serves(command) && !spelling.empty()) {
        names.push_back(spelling);
      }
    }
  }
  return names;
}

std::string_view foreign_option_advice(std::string_view name) noexcept {
  const auto* found = std::ranges::find_if(
      kForeign, [name](const ForeignOption& option) { return same_name(name, option.name); });
  return found == kForeign.end() ? std::string_view{} : found->advice;
}

}  // namespace kvpool::cli
