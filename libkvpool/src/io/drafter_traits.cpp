// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "drafter_traits.hpp"

#include <array>
#include <string>
#include <string_view>

namespace kvpool::io::detail {
namespace {

struct KindOfArchitecture {
  std::string_view part;
  DrafterKind kind;
};

// Parts of architecture names; no target's architecture contains them.
constexpr std::array kArchitectures{
    KindOfArchitecture{"DFlashDraft", DrafterKind::kDflash},
    KindOfArchitecture{"DSparkDraft", DrafterKind::kDspark},
    KindOfArchitecture{"DominoDraft", DrafterKind::kDomino},
    KindOfArchitecture{"PEagleDraft", DrafterKind::kPeagle},
    KindOfArchitecture{"Eagle3", DrafterKind::kEagle3},
};

std::optional<DrafterKind> kind_by_architecture(const JsonReader& config, const ModelFields& fields,
                                                FactLog& facts) {
  for (const std::string& name : fields.architectures) {
    for (const KindOfArchitecture& known : kArchitectures) {
      if (name.find(known.part) != std::string::npos) {
        facts.add("drafter", config.dotted("architectures"), name,
                  "by architecture: " + std::string{to_string(known.kind)});
        return known.kind;
      }
    }
  }
  return std::nullopt;
}

std::optional<DrafterKind> kind_by_projector(const JsonReader& nested) {
  const auto projector = nested.text("projector_type");
  if (!projector.has_value()) {
    return std::nullopt;
  }
  if (*projector == "dflash") {
    return DrafterKind::kDflash;
  }
  if (*projector == "dspark") {
    return DrafterKind::kDspark;
  }
  if (*projector == "domino") {
    return DrafterKind::kDomino;
  }
  nested.unsupported(nested.dotted("projector_type"), *projector,
                     "not understood: dflash, dspark and domino are");
}

void check_attention_mode(const JsonReader& nested, const ModelFields& fields) {
  const auto mode = nested.text("attention_mode");
  if (!mode.has_value()) {
    return;
  }
  const std::string key = nested.dotted("attention_mode");
  if (*mode == "mla") {
    if (!fields.latent.has_value()) {
      nested.invalid(key, *mode,
                     "contradicts a config without a latent cache: add kv_lora_rank "
                     "and qk_rope_head_dim");
    }
  } else if (*mode == "gqa" || *mode == "mha" || *mode == "mqa") {
    if (fields.latent.has_value()) {
      nested.invalid(key, *mode,
                     "contradicts kv_lora_rank, which makes the cache a latent one: "
                     "remove one of them");
    }
  } else {
    nested.unsupported(key, *mode, "not understood: gqa and mla are");
  }
}

}  // namespace

std::optional<DrafterTraits> read_drafter(const JsonReader& config, const ModelFields& fields,
                                          FactLog& facts) {
  const auto nested = config.child("dflash_config");
  auto kind = kind_by_architecture(config, fields, facts);
  if (nested.has_value()) {
    const auto by_projector = kind_by_projector(*nested);
    if (kind.has_value() && by_projector.has_value() && *kind != *by_projector) {
      nested->invalid(
          nested->dotted("projector_type"), std::string{to_string(*by_projector)},
          "contradicts architectures, which names a " + std::string{to_string(*kind)} + " drafter");
    }
    if (!kind.has_value()) {
      kind = by_projector.value_or(DrafterKind::kDflash);
      const bool named = by_projector.has_value();
      facts.add("drafter",
                named ? nested->dotted("projector_type") : config.dotted("dflash_config"),
                to_string(*kind), named ? "" : "a dflash_config without a projector_type");
    }
    check_attention_mode(*nested, fields);
  }
  if (!kind.has_value()) {
    return std::nullopt;
  }
  DrafterTraits traits;
  traits.kind = kind;
  if (const auto block = config.integer({"block_size"}, {0, limits::kDim.high})) {
    traits.block_tokens = Tokens{block->value};
    facts.add("block_tokens", block->key, block->value);
  }
  if (const auto layers = config.integer({"num_target_layers"}, limits::kLayers)) {
    traits.target_layers = Layers{layers->value};
    facts.add("target_layers", layers->key, layers->value,
              "layers of the target that the drafter was made for");
  }
  return traits;
}

}  // namespace kvpool::io::detail
