// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "weight_estimate.hpp"

#include <kvpool/core/checked.hpp>

#include "weight_mlp.hpp"
#include "weight_vision.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kvpool::io::detail {
namespace {

// Parts of the weights that parallelism divides differently.
enum class Share { kAttention, kRoutedExperts, kRest };

// Adds up parameters by how they are stored and divided.
class Sum {
 public:
  void add_plain(CheckedInt count, Share share = Share::kRest) { add(count, 0, share); }
  void add(CheckedInt count, std::int64_t centibits, Share share) {
    Stored& stored = shares_[static_cast<std::size_t>(share)];
    if (centibits == 0) {
      plain_ += count;
      stored.plain += count;
      return;
    }
    quantized_ += count;
    weighted_ += count * centibits;
    stored.weighted += count * centibits;
  }

  [[nodiscard]] ParameterEstimate take(const JsonReader& config, std::int64_t plain_bits) const {
    const auto plain = plain_.to_int64();
    const auto quantized = quantized_.to_int64();
    const auto bits = weighted_.to_int64();
    const auto attention = bytes_of(Share::kAttention, plain_bits);
    const auto experts = bytes_of(Share::kRoutedExperts, plain_bits);
    if (!plain.has_value() || !quantized.has_value() || !bits.has_value() ||
        !attention.has_value() || !experts.has_value()) {
      throw Refused{Error{ErrorCode::kOutOfRange,
                          "the model's parameters do not fit into 64 bits: check layers, hidden "
                          "size and experts",
                          config.file(),
                          config.dotted("hidden_size"),
                          {}}};
    }
    ParameterEstimate out;
    out.plain = Elements{*plain};
    out.quantized = Elements{*quantized};
    out.plain_bits = plain_bits;
    out.attention = Bytes{*attention};
    out.routed_experts = Bytes{*experts};
    if (*quantized > 0) {
      out.quantized_centibits = (*bits + *quantized / 2) / *quantized;
    }
    return out;
  }

 private:
  struct Stored {
    CheckedInt plain{0};
    CheckedInt weighted{0};
  };

  [[nodiscard]] std::optional<std::int64_t> bytes_of(Share share, std::int64_t plain_bits) const {
    const Stored& stored = shares_[static_cast<std::size_t>(share)];
    return (ceil_div(stored.plain * plain_bits, CheckedInt{8}) +
            ceil_div(stored.weighted, CheckedInt{800}))
        .to_int64();
  }

  CheckedInt plain_{0};
  CheckedInt quantized_{0};
  CheckedInt weighted_{0};
  std::array<Stored, 3> shares_{};
};

// Parameters of one layer, apart from its MLP or experts.
class MixerWeights {
 public:
  MixerWeights(const JsonReader& config, const ModelFields& fields)
      : config_{config}, hidden_{fields.hidden_size} {
    const auto dim = [&config](std::string_view key) {
      return config.integer_or({key}, limits::kDimOrNone, 0);
    };
    if (fields.latent.has_value()) {
      q_rank_ = dim("q_lora_rank");
      nope_ = dim("qk_nope_head_dim");
      value_ = dim("v_head_dim");
      index_heads_ = config.integer_or({"index_n_heads"}, limits::kHeads, 0);
    }
    attention_gate_ = config.boolean("attn_output_gate").value_or(false);
    latent_gate_ = config.boolean("mla_use_output_gate").value_or(false);
    if (const auto linear = config.child("linear_attn_config")) {
      full_rank_gate_ = linear->boolean("use_full_rank_gate").value_or(false);
    }
  }

  // Part and parameters of what keeps `cache`.
  [[nodiscard]] std::pair<WeightPart, CheckedInt> of(const LayerCache& cache) const {
    if (const auto* a = std::get_if<AttentionCache>(&cache)) {
      const CheckedInt queries = CheckedInt{a->query_heads.count()} * a->key_dim;
      const CheckedInt outputs = CheckedInt{a->query_heads.count()} * a->value_dim;
      const CheckedInt kv = CheckedInt{a->kv_heads.count()} * a->key_dim +
                            CheckedInt{a->kv_heads.count()} * a->value_dim;
      return {WeightPart::kAttention,
              hidden_ * (queries * (attention_gate_ ? 2 : 1) + kv + outputs)};
    }
    if (const auto* l = std::get_if<LatentCache>(&cache)) {
      return {WeightPart::kAttention, latent(*l)};
    }
    if (const auto* i = std::get_if<IndexerCache>(&cache)) {
      const CheckedInt queries =
          CheckedInt{q_rank_ == 0 ? hidden_ : CheckedInt{q_rank_}} * index_heads_ * i->key_dim;
      return {WeightPart::kAttention, queries + hidden_ * i->key_dim + hidden_ * index_heads_};
    }
    return state(std::get<StateCache>(cache));
  }

  [[nodiscard]] bool lacks_latent_dims() const noexcept { return nope_ == 0 || value_ == 0; }

 private:
  [[nodiscard]] CheckedInt latent(const LatentCache& l) const {
    const CheckedInt heads{l.query_heads.count()};
    const CheckedInt queries = heads * (CheckedInt{nope_} + l.rope_dim);
    const CheckedInt outputs = heads * value_;
    const CheckedInt query = q_rank_ == 0 ? hidden_ * queries : (hidden_ + queries) * q_rank_;
    return query + hidden_ * (CheckedInt{l.latent_dim} + l.rope_dim) +
           heads * (CheckedInt{nope_} + value_) * l.latent_dim +
           hidden_ * outputs * (latent_gate_ ? 2 : 1);
  }

  [[nodiscard]] std::pair<WeightPart, CheckedInt> state(const StateCache& s) const {
    const CheckedInt channels{s.conv_channels};
    const CheckedInt convolution = channels * s.conv_kernel;
    switch (s.family) {
      case StateFamily::kMamba2: {
        const CheckedInt inner = channels - CheckedInt{s.groups} * s.channels_per_group;
        return {WeightPart::kRecurrent,
                hidden_ * (inner + channels + s.heads) + convolution + inner * hidden_ + inner};
      }
      case StateFamily::kGatedDeltaNet: {
        // Channels are queries, keys and values; the values' part again for gate and output.
        const CheckedInt values = CheckedInt{s.heads} * value_dim("linear_value_head_dim");
        return {WeightPart::kRecurrent,
                hidden_ * (channels + values * 2 + CheckedInt{2} * s.heads) + convolution};
      }
      case StateFamily::kKimiDelta: {
        // Its modules carry the attention's name, so checkpoints treat them as attention.
        const CheckedInt width = floor_div(channels, 3);
        const CheckedInt dim = floor_div(width, s.heads);
        const CheckedInt low_rank = hidden_ * dim + dim * width;
        return {WeightPart::kAttention, hidden_ * width * 4 + convolution + low_rank +
                                            hidden_ * s.heads +
                                            (full_rank_gate_ ? hidden_ * width : low_rank)};
      }
      case StateFamily::kShortConv: break;
    }
    return {WeightPart::kRecurrent, hidden_ * hidden_ * 4 + convolution};
  }

  [[nodiscard]] std::int64_t value_dim(std::string_view key) const {
    return config_.integer_or({key}, limits::kDim, 0);
  }

  const JsonReader& config_;
  CheckedInt hidden_;
  std::int64_t q_rank_ = 0;
  std::int64_t nope_ = 0;
  std::int64_t value_ = 0;
  std::int64_t index_heads_ = 0;
  bool attention_gate_ = false;
  bool latent_gate_ = false;
  bool full_rank_gate_ = false;
};

// Ending of a checkpoint's name that speaks of quantised weights, or nothing.
std::string_view format_in_name(std::string_view name) {
  constexpr std::array<std::string_view, 4> kEndings{"-NVFP4", "-FP8", "-nvfp4", "-fp8"};
  const auto* at = std::ranges::find_if(
      kEndings, [name](std::string_view ending) { return name.ends_with(ending); });
  return at == kEndings.end() ? std::string_view{} : *at;
}

// Text that names what is in the estimate and what is not.
class Basis {
 public:
  void leave_out(std::string_view what) {
    missing_ += missing_.empty() ? "" : ", ";
    missing_ += what;
  }
  void add_vision() { vision_ = true; }
  [[nodiscard]] std::string text(const ModelConfig& model, const WeightFormat& format) const {
    std::string out = "estimated from the config: text model";
    out += vision_ ? " and vision encoder" : "";
    if (model.mtp_layers.count() > 0) {
      out += " with " + std::to_string(model.mtp_layers.count()) + " next-token layers";
    }
    out += format.name().empty() ? ", not quantised" : ", weights " + format.name();
    if (const auto named = format_in_name(model.name); format.name().empty() && !named.empty()) {
      out += " (the name ends in " + std::string{named} +
             ": is hf_quant_config.json missing beside the config?)";
    }
    return missing_.empty() ? out : out + "; not counted: " + missing_;
  }

 private:
  std::string missing_;
  bool vision_ = false;
};

void add_mlp(Sum& sum, const MlpParameters& mlp, const WeightFormat& format, std::int64_t layer,
             bool mtp) {
  const auto bits = [&](WeightPart part) {
    return mtp ? format.mtp_centibits(part, layer) : format.centibits(part, layer);
  };
  sum.add(mlp.dense, bits(WeightPart::kDenseMlp), Share::kRest);
  sum.add(mlp.experts, bits(WeightPart::kExperts), Share::kRoutedExperts);
  sum.add(mlp.expert_stream, bits(WeightPart::kExperts), Share::kRest);
  sum.add(mlp.shared_experts, bits(WeightPart::kSharedExperts), Share::kRest);
  sum.add_plain(mlp.router);
}

void add_embeddings(Sum& sum, Basis& basis, const JsonReader& config, const ModelFields& fields,
                    const ModelConfig& model) {
  const auto vocabulary = config.integer({"vocab_size"}, limits::kVocabulary);
  const auto draft = config.integer({"draft_vocab_size"}, limits::kVocabulary);
  const CheckedInt hidden{fields.hidden_size};
  if (model.drafter.has_value()) {
    // A drafter embeds with the target's table; only a head for a vocabulary of its own is extra.
    basis.leave_out("embeddings (the target's)");
    if (draft.has_value()) {
      sum.add_plain(hidden * draft->value);
    }
    return;
  }
  if (!vocabulary.has_value()) {
    basis.leave_out("embeddings (no vocab_size)");
    return;
  }
  const CheckedInt table = hidden * vocabulary->value;
  sum.add_plain(table);
  // Families that share the table with the head unless told otherwise.
  constexpr std::array<std::string_view, 5> kTied{"gemma", "opt", "gpt2", "whisper", "lfm2"};
  const bool tied_by_default = std::ranges::any_of(
      kTied, [&fields](std::string_view prefix) { return fields.model_type.starts_with(prefix); });
  if (!config.boolean("tie_word_embeddings").value_or(tied_by_default)) {
    sum.add_plain(table);
  }
  const std::int64_t per_layer =
      config.integer_or({"hidden_size_per_layer_input"}, limits::kDimOrNone, 0);
  if (per_layer > 0) {
    sum.add_plain(CheckedInt{config.integer_or({"vocab_size_per_layer_input"}, limits::kVocabulary,
                                               vocabulary->value)} *
                  fields.layers * per_layer);
  }
}

// What a drafter has beside its layers: the projection of the target's hidden states, for Eagle a
// first attention layer that reads two vectors, and a Markov head.
void add_drafter_parts(Sum& sum, const JsonReader& config, const ModelFields& fields,
                       const ModelConfig& model) {
  if (!model.drafter.has_value()) {
    return;
  }
  const CheckedInt hidden{fields.hidden_size};
  const bool eagle =
      model.drafter->kind == DrafterKind::kEagle3 || model.drafter->kind == DrafterKind::kPeagle;
  std::int64_t sources = eagle ? 3 : 0;
  if (const auto nested = config.child("dflash_config")) {
    const Json::Array* targets = nested->list("target_layer_ids");
    sources = targets == nullptr ? 0 : static_cast<std::int64_t>(targets->size());
    const std::int64_t rank = nested->integer_or({"markov_rank"}, limits::kDimOrNone, 0);
    sum.add_plain(CheckedInt{config.integer_or({"vocab_size"}, limits::kVocabulary, 0)} * rank * 2);
  }
  sum.add_plain(hidden * hidden * sources);
  if (eagle && !model.layers.front().caches.empty()) {
    if (const auto* a = std::get_if<AttentionCache>(&model.layers.front().caches.front())) {
      sum.add_plain(hidden * (CheckedInt{a->query_heads.count()} * a->key_dim +
                              CheckedInt{a->kv_heads.count()} * a->key_dim +
                              CheckedInt{a->kv_heads.count()} * a->value_dim),
                    Share::kAttention);
    }
  }
}

}  // namespace

ParameterEstimate estimate_parameters(const JsonReader& config, const ModelFields& fields,
                                      const LayerKinds& kinds, const WeightFormat& format,
                                      const ModelConfig& model) {
  Sum sum;
  Basis basis;
  add_embeddings(sum, basis, config, fields, model);
  add_drafter_parts(sum, config, fields, model);

  const MixerWeights mixers{config, fields};
  if (fields.latent.has_value() && mixers.lacks_latent_dims()) {
    basis.leave_out("parts of attention (no qk_nope_head_dim or v_head_dim)");
  }
  const MlpWeights mlps{config, fields, kinds};
  if (mlps.lacks_width()) {
    basis.leave_out("MLPs (no intermediate_size)");
  }
  for (const ModelLayer& layer : model.layers) {
    const std::int64_t index = layer.index.value();
    const ModelLayer& owner =
        layer.shares_with.has_value()
            ? model.layers[static_cast<std::size_t>(layer.shares_with->value())]
            : layer;
    for (const LayerCache& cache : owner.caches) {
      const auto [part, count] = mixers.of(cache);
      sum.add(count, format.centibits(part, index), Share::kAttention);
    }
    add_mlp(sum, mlps.of(index), format, index, false);
  }
  sum.add_plain(mlps.encoder());
  if (const auto vision = vision_parameters(config, fields.hidden_size)) {
    sum.add_plain(*vision);
    basis.add_vision();
  } else if (config.has("vision_config")) {
    basis.leave_out("the vision encoder");
  }

  // A next-token layer: its mixer, the last layer's MLP, and the projection of two hidden states.
  const MlpParameters last = mlps.of_mtp();
  const CheckedInt hidden{fields.hidden_size};
  for (std::int64_t i = 0; i < model.mtp_layers.count(); ++i) {
    const std::int64_t index = fields.layers + i;
    for (const LayerCache& cache : model.mtp_layer) {
      const auto [part, count] = mixers.of(cache);
      sum.add(count, format.mtp_centibits(part, index), Share::kAttention);
    }
    add_mlp(sum, last, format, index, true);
    sum.add_plain(hidden * hidden * 2);
  }
  ParameterEstimate out = sum.take(config, model.native_dtype == KvDtype::kFp32 ? 32 : 16);
  out.basis = basis.text(model, format);
  return out;
}

}  // namespace kvpool::io::detail
