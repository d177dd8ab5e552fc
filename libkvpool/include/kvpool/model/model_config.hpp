// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/kv_dtype.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/model/layer_cache.hpp>
#include <kvpool/model/stored_weights.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// How draft tokens are made.
enum class DrafterKind {
  kMtp,              ///< next-token layers of the target itself
  kEagle3,           ///< one-model Eagle3 head
  kDflash,           ///< standalone block drafter
  kDspark,           ///< standalone block drafter with a Markov head (GQA or MLA)
  kDomino,           ///< external block drafter, pools as DFlash
  kPeagle,           ///< external parallel Eagle, pools as DFlash
  kDraftTarget,      ///< a small model of the target's family
  kPard,             ///< external parallel drafter
  kNgram,            ///< tokens looked up in the prompt: no cache
  kSuffixAutomaton,  ///< tokens looked up in a suffix automaton: no cache
};

/// Stable lower-case name, as on the command line: `mtp`, `eagle3`, `dflash`, `dspark`, `domino`,
/// `peagle`, `draft_target`, `pard`, `ngram`, `suffix_automaton`.
[[nodiscard]] std::string_view to_string(DrafterKind kind) noexcept;

/// Reads the spelling of `to_string`, or nothing.
[[nodiscard]] std::optional<DrafterKind> parse_drafter_kind(std::string_view text) noexcept;

/// What the config of a drafter says about drafting.
struct DrafterTraits {
  /// Kind that the config itself names (architecture, `dflash_config`), if it does.
  std::optional<DrafterKind> kind{};
  /// Tokens of one draft block (`block_size`), 0 when not stated.
  Tokens block_tokens{};
  /// Layers of the target that the drafter was trained for (`num_target_layers`), if stated.
  std::optional<Layers> target_layers{};

  /// Field by field.
  friend bool operator==(const DrafterTraits&, const DrafterTraits&) = default;
};

/// One derived figure and the config keys it came from; the material of `kvplan explain`.
struct ConfigFact {
  /// Name of the figure, such as `kv_heads`.
  std::string figure{};
  /// Dotted key in the file, such as `text_config.num_key_value_heads`.
  std::string key{};
  /// Value as text.
  std::string value{};
  /// Rule that led from key to figure, when it is more than a copy.
  std::string rule{};

  /// Field by field.
  friend bool operator==(const ConfigFact&, const ConfigFact&) = default;
};

/// Parameters of the whole model, estimated from the config. `plain` and `quantized` are the whole;
/// `attention` and `routed_experts` say how much of it parallelism treats apart.
struct ParameterEstimate {
  /// Parameters kept in the native type: embeddings, norms, everything a quantised checkpoint
  /// skips.
  Elements plain{};
  /// Parameters stored in the checkpoint's quantised weight format.
  Elements quantized{};
  /// Bits of one quantised parameter, block scales included, in hundredths of a bit (425 = 4.25).
  std::int64_t quantized_centibits = 1600;
  /// Bits of one plain parameter.
  std::int64_t plain_bits = 16;
  /// Stored bytes of what mixes tokens (attention, indexers, recurrent layers), part of the whole.
  /// Every rank keeps them under attention data parallelism.
  Bytes attention{};
  /// Stored bytes of the routed experts, part of the whole: divided over expert-parallel ranks.
  Bytes routed_experts{};
  /// What the estimate rests on, for the ledger's reason.
  std::string basis{};

  /// Field by field.
  friend bool operator==(const ParameterEstimate&, const ParameterEstimate&) = default;
};

/// A model as cache planning sees it: typed layers and the few figures around them. Parallelism and
/// cache format are not part of it. Comes from `io` (`read_model_config`) or is written by hand.
struct ModelConfig {
  /// Display name.
  std::string name{};
  /// `model_type` of the text model.
  std::string model_type{};
  /// First architecture named by the config, or empty.
  std::string architecture{};
  /// All layers, in order. Next-token (MTP) layers are not among them.
  std::vector<ModelLayer> layers{};
  /// The caches that one next-token (MTP) layer owns; empty when the model has none.
  std::vector<LayerCache> mtp_layer{};
  /// How many next-token (MTP) layers the checkpoint has.
  Layers mtp_layers{};
  /// Type of the weights, and of the cache unless something says otherwise.
  std::optional<KvDtype> native_dtype{};
  /// Cache type that the checkpoint's quantisation section asks for (`kv_cache_scheme`,
  /// `kv_cache_quant_algo`).
  std::optional<KvDtype> checkpoint_kv_dtype{};
  /// Longest position (`max_position_embeddings`), if stated.
  std::optional<Tokens> max_positions{};
  /// Query heads of the model (the first attention layer's).
  Heads query_heads{};
  /// Width of the residual stream.
  std::int64_t hidden_size = 0;
  /// Present when this is a drafter's config.
  std::optional<DrafterTraits> drafter{};
  /// Weights of the checkpoint, estimated.
  ParameterEstimate parameters{};
  /// Weights of the checkpoint as its files hold them, when they were read; then the estimate is
  /// not used.
  std::optional<StoredWeights> weights{};
  /// Where the figures came from.
  std::vector<ConfigFact> facts{};

  /// Field by field.
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Layers that own a cache of any kind.
[[nodiscard]] Layers caching_layers(const ModelConfig& model) noexcept;

/// True when some layer keeps a recurrent state.
[[nodiscard]] bool has_recurrent_state(const ModelConfig& model) noexcept;

/// True when some layer keeps an MLA latent.
[[nodiscard]] bool has_latent_cache(const ModelConfig& model) noexcept;

/// Layers collected by what they keep, for people: `24 x MLA 512+64`, `69 x kimi_delta`.
[[nodiscard]] std::string describe_layers(const ModelConfig& model);

}  // namespace kvpool
