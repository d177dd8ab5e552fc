// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "io/ignored_keys.hpp"

#include <algorithm>
#include <array>

namespace kvpool::io::detail {
namespace {

/// Positions, activations, initialisation, sampling, training, tools; small factors and biases.
constexpr auto kIgnored = std::to_array<std::string_view>({
    "activation_function", "activation_situ_beta", "activation_situ_linear_beta",
    "add_cross_attention", "add_full_attention_sink_bias", "add_swa_attention_sink_bias",
    "attention_bias", "attention_dropout", "attention_multiplier", "attention_value_scale",
    "attn_logit_softcapping", "attn_pdrop", "auto_map", "aux_loss_alpha", "bad_words_ids",
    "begin_suppress_tokens", "chunk_size_feed_forward", "cross_attention_hidden_size",
    "decoder_sparse_step", "decoder_start_token_id", "diversity_penalty", "do_layer_norm_before",
    "do_sample", "dropout", "eagle_config", "early_stopping", "embd_pdrop", "embedding_multiplier",
    "encoder_attention_heads", "encoder_no_repeat_ngram_size", "ep_size", "expand",
    "experts_per_token", "exponential_decay_length_penalty", "fc_norm", "final_logit_softcapping",
    "finetuning_task", "for_llm_compressor", "forced_bos_token_id", "forced_eos_token_id",
    "hidden_act", "hidden_activation", "hidden_dropout", "id2label", "ignore_index",
    "image_placeholder", "index_skip_topk_offset", "index_topk", "indexer_rope_interleave",
    "initial_context_length", "initializer_factor", "initializer_range", "is_decoder", "label2id",
    "language_model_only", "latent_moe_use_norm", "layer_norm_eps", "layer_norm_epsilon",
    "layernorm_epsilon", "length_penalty", "logits_scaling", "mamba_conv_bias", "mamba_dt_limit",
    "mamba_hidden_act", "mamba_proj_bias", "max_length", "min_length", "mla_use_nope", "mlp_bias",
    "mlp_hidden_act", "mm_tokens_per_image", "moe_renormalize", "moe_router_activation_func",
    "moe_router_dtype", "moe_shared_expert_overlap", "mtp_use_dedicated_embeddings",
    "multimodal_projector_bias", "n_group", "no_repeat_ngram_size", "norm_eps", "norm_output",
    "norm_topk_prob", "num_beam_groups", "num_beams", "num_expert_group", "num_experts_per_tok",
    "num_experts_per_token", "num_logits_to_keep", "num_return_sequences",
    "original_max_position_embeddings", "output_attentions", "output_gate_type",
    "output_hidden_states", "output_router_logits", "output_scores", "partial_rotary_factor",
    "prefix", "pretraining_tp", "problem_type", "projector_hidden_act", "pruned_heads",
    "qk_head_dim", "qk_norm_type", "qkv_bias", "quantization_config", "query_pre_attn_scalar",
    "remove_invalid_values", "repetition_penalty", "rescale_prenorm_residual", "resid_pdrop",
    "residual_in_fp32", "residual_multiplier", "return_dict", "return_dict_in_generate",
    "rms_norm_eps", "rotary_dim", "routed_scaling_factor", "router_aux_loss_coef",
    "router_jitter_noise", "scale_embedding", "scoring_func", "seq_aux", "spatial_merge_size",
    "suppress_tokens", "swa_rope_theta", "swiglu_limit", "target_model_type",
    "task_specific_params", "temperature", "tf_legacy_loss", "tie_encoder_decoder",
    "time_step_rank", "tokenizer_class", "top_k", "top_k_experts", "top_p", "topk_group",
    "topk_method", "torchscript", "transformers_version", "typical_p", "unsloth_fixed",
    "unsloth_version", "use_bfloat16", "use_bias", "use_bidirectional_attention", "use_cache",
    "use_conv_bias", "use_grouped_topk", "use_mamba_kernels", "use_mrope", "use_qk_norm",
    "use_routing_bias", "use_unified_vision_chunk", "video_placeholder",
});

/// Keys that a rule knows and does not ask for where another one decides.
constexpr auto kSuperseded = std::to_array<std::string_view>({
    "attention_chunk_size", "chunk_size", "dtype", "full_attention_interval", "head_dim",
    "language_config", "llm_config", "max_window_layers", "mlp_only_layers", "num_experts",
    "num_key_value_heads", "sliding_window", "sliding_window_pattern", "sliding_window_size",
    "text_config", "tie_word_embeddings", "torch_dtype", "vocab_size_per_layer_input",
});

/// Compared with this reader, or plain transformers.
constexpr auto kKnownTypes = std::to_array<std::string_view>({
    "cohere", "deepseek_v2", "deepseek_v3", "deepseek_v32", "gemma", "gemma2", "gemma3_text",
    "gemma4_text", "glm4", "glm4_moe", "glm_moe_dsa", "gpt2", "gpt_oss", "granite",
    "granitemoehybrid", "internlm2", "kimi_k2", "kimi_linear", "lfm2", "llama", "llama4_text",
    "mimo", "mimo_v2_flash", "minimax_m2", "ministral3", "mistral", "mixtral", "nemotron-nas",
    "nemotron_h", "olmo2", "opt", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_5_moe_text",
    "qwen3_5_text", "qwen3_moe", "qwen3_next", "qwen3_vl_moe_text", "qwen3_vl_text", "smollm3",
    "starcoder2", "whisper",
});

/// Starts of keys of encoders and of the positions' encoding.
constexpr auto kPrefixes =
    std::to_array<std::string_view>({"_", "rope_", "time_step_", "vision_", "audio_"});
/// Ends of keys that name tokens.
constexpr auto kSuffixes = std::to_array<std::string_view>({"_token_id", "_token_index"});

template <typename Words>
[[nodiscard]] bool has_word(const Words& words, std::string_view word) noexcept {
  return std::ranges::binary_search(words, word);
}

}  // namespace

bool is_ignored_key(std::string_view key) noexcept {
  return has_word(kIgnored, key) || has_word(kSuperseded, key) ||
         std::ranges::any_of(kPrefixes,
                             [key](std::string_view start) { return key.starts_with(start); }) ||
         std::ranges::any_of(kSuffixes,
                             [key](std::string_view end) { return key.ends_with(end); });
}

bool is_known_model_type(std::string_view type) noexcept { return has_word(kKnownTypes, type); }

}  // namespace kvpool::io::detail
