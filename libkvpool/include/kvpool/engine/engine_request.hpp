// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/kv_dtype.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/engine/engine.hpp>
#include <kvpool/engine/engine_format.hpp>
#include <kvpool/model/model_config.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// How vLLM turns blocks into a printed number of tokens.
enum class TokenReport {
  kConcurrency,  ///< blocks / blocks of one request x its length (from about 0.20.1 on)
  kBlocks,       ///< blocks / groups x the smallest attention block
};

/// How llama.cpp and ik_llama.cpp keep the cache of an MLA model.
enum class MlaMode {
  kExpanded,       ///< K and V of every head
  kLatent,         ///< one row of latent + rope, no V
  kLatentAndCopy,  ///< also a copy of the latent as V
};

/// Which of TensorRT-LLM's managers sizes the pool.
enum class BlockManagerKind {
  kCpp,       ///< the C++ manager: blocks are rounded up
  kPythonV1,  ///< the Python manager: rounded down, one number of tokens for target and draft
  kPythonV2,  ///< the second Python manager: rounded down, the bytes are split
};

/// A drafter beside the target, as an engine runs it.
struct EngineDrafter {
  /// How it drafts.
  DrafterKind kind = DrafterKind::kMtp;
  /// Its own config; absent for MTP and where only the number of layers is known.
  std::optional<ModelConfig> model{};
  /// Tokens drafted in a step; absent where it is not known.
  std::optional<std::int64_t> num_draft_tokens{};
  /// Draft layers that own a cache, when there is no config; they are copies of the target's
  /// attention layer. Without it those of the target's config, for MTP.
  std::optional<std::int64_t> num_layers{};
  /// Back-end as the engine spells it (`TRTLLM`, `VANILLA`), or empty for the engine's default.
  std::string backend{};

  /// Field by field.
  friend bool operator==(const EngineDrafter&, const EngineDrafter&) = default;
};

/// Settings of a deployment, with the engines' defaults. Each says whose it is.
struct EngineSettings {
  /// All: tensor parallel size.
  std::int64_t tp = 1;
  /// All: pipeline stages.
  std::int64_t pp = 1;
  /// SGLang: data parallel size.
  std::int64_t dp = 1;
  /// vLLM: decode-context parallel size.
  std::int64_t dcp = 1;
  /// vLLM, SGLang, TensorRT-LLM: format of the cache. Without it the checkpoint's, else the
  /// weights' own.
  std::optional<EngineFormat> kv_format{};
  /// vLLM: block before the engine enlarges it (16; MLA 64). SGLang: page (1). TensorRT-LLM: tokens
  /// of a block.
  std::optional<Tokens> tokens_per_block{};
  /// All: longest request.
  std::optional<Tokens> max_model_len{};
  /// vLLM: how tokens are reported.
  TokenReport token_report = TokenReport::kConcurrency;
  /// vLLM: prefix caching; a request holds one state block more.
  bool prefix_caching = true;
  /// vLLM, SGLang: type of the recurrent state. Without it the config's, else f32.
  std::optional<KvDtype> state_dtype{};
  /// vLLM, SGLang: type of the convolution state. Without it the weights' own, else bf16.
  std::optional<KvDtype> conv_state_dtype{};
  /// vLLM: tokens of one step.
  Tokens max_num_batched_tokens{8192};
  /// vLLM: steps in flight.
  std::int64_t max_concurrent_batches = 1;
  /// Running sequences, where something is sized by them (TensorRT-LLM: states; llama.cpp has
  /// `n_seq_max`, SGLang `max_running_requests`).
  std::optional<std::int64_t> max_num_seqs{};
  /// vLLM: false turns windows and chunks into full attention.
  bool hybrid_kv_manager = true;
  /// vLLM: encoder tokens charged to cross attention. Without it the config's encoder length.
  std::optional<Tokens> encoder_budget_tokens{};
  /// vLLM: in hundredths, how much larger than the smallest kind of layers the largest may be and
  /// still set the size of groups (150; older versions 125).
  std::int64_t group_padding_limit = 150;
  /// SGLang: attention is data parallel: its tensor parallel size is tp / dp.
  bool dp_attention = false;
  /// SGLang: slots of recurrent state.
  std::optional<std::int64_t> max_state_slots{};
  /// SGLang: running requests.
  std::optional<std::int64_t> max_running_requests{};
  /// SGLang: tokens of the sliding layers / tokens of the full layers.
  double swa_full_ratio = 0.8;
  /// SGLang: share of the memory for weights and cache, in millionths; computed without it.
  std::optional<std::int64_t> mem_fraction_ppm{};
  /// SGLang: largest batch of its CUDA graphs, for the computed share.
  std::int64_t cuda_graph_max_bs = 512;
  /// SGLang: states / KV where the budget is divided between them.
  double mamba_full_ratio = 0.9;
  /// SGLang, TensorRT-LLM: most tokens of the pool, whatever the budget holds.
  std::optional<std::int64_t> max_tokens{};
  /// TensorRT-LLM: share of the free memory that becomes cache, in millionths.
  std::int64_t free_fraction_ppm = 900'000;
  /// TensorRT-LLM: which manager. Without it the C++ one, or V2 beside a draft pool.
  std::optional<BlockManagerKind> block_manager{};
  /// TensorRT-LLM: explicit windows, cycled over the layers; empty for none.
  std::vector<Tokens> max_attention_window{};
  /// llama.cpp family: format of K.
  EngineFormat k_format{.name = "f16", .carrier = KvDtype::kFp16};
  /// llama.cpp family: format of V.
  EngineFormat v_format{.name = "f16", .carrier = KvDtype::kFp16};
  /// llama.cpp family: sequences.
  std::int64_t n_seq_max = 1;
  /// llama.cpp family: all sequences share one stream of cells.
  bool kv_unified = false;
  /// llama.cpp: tokens of one micro-batch.
  std::int64_t n_ubatch = 512;
  /// llama.cpp: extra recurrent states kept per sequence.
  std::int64_t rollback_states = 0;
  /// llama.cpp family: how an MLA cache is kept. Without it latent (llama.cpp), expanded (ik).
  std::optional<MlaMode> mla_mode{};
  /// llama.cpp: multiple to which the ring of sliding layers is rounded up (256; before late 2025
  /// 32 without flash attention).
  std::int64_t swa_cell_multiple = 256;

  /// Field by field.
  friend bool operator==(const EngineSettings&, const EngineSettings&) = default;
};

/// What a prediction starts from.
enum class GivenKind {
  kKvBudgetBytes,  ///< bytes for the cache of one rank (TensorRT-LLM: after the fraction)
  kNumBlocks,      ///< blocks of the pool
  kKvTokens,       ///< tokens as the engine prints them
  kNumSlots,       ///< recurrent cells (llama.cpp)
  kCells,          ///< cells of one stream (llama.cpp)
  kMaxModelLen,    ///< a request of this length
};

/// Name as in the case files: `kv_budget_bytes`, `num_blocks`, `kv_tokens`, `num_slots`, `cells`,
/// `max_model_len`.
[[nodiscard]] std::string_view to_string(GivenKind kind) noexcept;

/// Reads the spelling of `to_string`, or nothing.
[[nodiscard]] std::optional<GivenKind> parse_given_kind(std::string_view text) noexcept;

/// The one figure that a prediction starts from.
struct EngineGiven {
  /// Which.
  GivenKind kind = GivenKind::kKvBudgetBytes;
  /// How much, in the unit of the kind; 0 to 2^60.
  std::int64_t value = 0;

  /// Field by field.
  friend bool operator==(const EngineGiven&, const EngineGiven&) = default;
};

/// A question to an engine's arithmetic.
struct EngineRequest {
  /// Whose rules.
  Engine engine = Engine::kVllm;
  /// The model.
  ModelConfig target{};
  /// Its drafter, if any.
  std::optional<EngineDrafter> drafter{};
  /// The deployment.
  EngineSettings settings{};
  /// What is known.
  EngineGiven given{};

  /// Field by field.
  friend bool operator==(const EngineRequest&, const EngineRequest&) = default;
};

}  // namespace kvpool
