// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "engine/cache_slices.hpp"

#include <kvpool/layout/layer_group.hpp>
#include <kvpool/layout/page_geometry.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace kvpool::detail {
namespace {

/// Pages in which rows are measured: the only one of `fp4_mla`, which suits every other format.
constexpr Tokens kMeasuringPage{128};

constexpr std::int64_t kLargestDraft = 100'000;

bool is_value_plane(PlaneKind kind) noexcept {
  return kind == PlaneKind::kValue || kind == PlaneKind::kValueScales;
}

/// Bytes of the rows of all heads of a token in a plane, by the format's rule.
Result<CheckedInt> row_bytes(const PlaneGeometry& plane, const EngineFormat& format) {
  const CheckedInt heads{plane.heads.count()};
  const CheckedInt elements = heads * plane.row_elements;
  switch (format.rule) {
    case RowRule::kCarrier: return heads * plane.row_bytes.count();
    case RowRule::kPlainByte: return elements;
    case RowRule::kBlocks:
      if (elements.saturated() % kBlockElements != 0) {
        return setting_error("k_dtype",
                             fmt::format("a row of {} elements is no multiple of the {} of a block "
                                         "of {}; choose f16",
                                         elements.saturated(), kBlockElements, format.name),
                             ErrorCode::kUnsupported);
      }
      return floor_div(elements, kBlockElements) * format.block_bytes;
    case RowRule::kTurboquant: break;  // `add_rows`: K and V of a head are rounded together
  }
  return heads * plane.row_bytes.count();
}

/// Bytes of a token on one side of a cache (K and everything without V, or V), laid out by
/// `PageGeometry` in the format's carrier.
Result<CheckedInt> side_bytes(LayerGeometry part, const EngineFormat& format, bool values) {
  const bool fixed = part.kind == CacheKind::kIndexer;  // one format whatever the cache's is
  part.dtype = fixed ? part.dtype : format.carrier;
  const Result<PageGeometry> page =
      page_geometry({.span = part.span, .layers = {part}}, kMeasuringPage, {});
  if (!page) {
    return page.error();
  }
  CheckedInt sum{0};
  for (const PlaneGeometry& plane : page->planes) {
    if (is_value_plane(plane.kind) != values) {
      continue;
    }
    Result<CheckedInt> bytes = row_bytes(plane, fixed ? EngineFormat{} : format);
    if (!bytes) {
      return bytes;
    }
    sum += *bytes;
  }
  return sum;
}

Result<void> add_rows(const LayerGeometry& part, const SliceRules& rules, CacheSlice& slice) {
  if (rules.key_format.rule == RowRule::kTurboquant && part.kind == CacheKind::kKeyValue) {
    const PairBytes pair = turboquant_pair(rules.key_format, slice.key_dim, slice.value_dim);
    slice.key_bytes = (CheckedInt{pair.key.count()} * slice.heads).saturated();
    slice.value_bytes = (CheckedInt{pair.value.count()} * slice.heads).saturated();
    return {};
  }
  const Result<CheckedInt> key = side_bytes(part, rules.key_format, false);
  const Result<CheckedInt> value = side_bytes(part, rules.value_format, true);
  if (!key || !value) {
    return key ? value.error() : key.error();
  }
  slice.key_bytes = key->saturated();
  slice.value_bytes = value->saturated();
  return {};
}

std::int64_t element_bytes(KvDtype dtype) {
  return plain_element_bytes(dtype).value_or(Bytes{1}).count();
}

/// Turns caches into slices one by one.
class Slicer {
 public:
  Slicer(const SliceRules& rules, bool draft, KvDtype native)
      : rules_{rules}, draft_{draft}, native_{native} {}

  Result<void> add(std::int64_t layer, const LayerCache& original) {
    if (!rules_.indexers && std::holds_alternative<IndexerCache>(original)) {
      return {};
    }
    LayerCache cache = original;
    if (auto adapted = adapt(cache); !adapted) {
      return std::move(adapted).error();
    }
    const std::array layers{ModelLayer{.caches = {cache}}};
    Result<std::vector<LayerGeometry>> measured = geometry(layers);
    if (!measured) {
      Error error = std::move(measured).error();
      error.key = error.key == "tensor_parallel_size" ? "tp" : "kv_dtype";
      return error;
    }
    for (const LayerGeometry& part : *measured) {
      if (part.kind == CacheKind::kLatentTail) {
        continue;
      }
      if (auto added = add_part(layer, cache, part); !added) {
        return std::move(added).error();
      }
    }
    return {};
  }

  [[nodiscard]] std::vector<CacheSlice> take() && { return std::move(slices_); }

 private:
  /// The cache as the engine keeps it.
  Result<void> adapt(LayerCache& cache) const {
    if (const auto* latent = std::get_if<LatentCache>(&cache);
        latent != nullptr && rules_.mla == MlaMode::kExpanded) {
      if (latent->nope_dim == 0 || latent->value_dim == 0) {
        return setting_error("mla_mode",
                             "the heads of an MLA model in full need qk_nope_head_dim and "
                             "v_head_dim in its config",
                             ErrorCode::kUnsupported);
      }
      cache = AttentionCache{.query_heads = latent->query_heads,
                             .kv_heads = latent->query_heads,
                             .key_dim = latent->nope_dim + latent->rope_dim,
                             .value_dim = latent->value_dim,
                             .span = latent->span};
    }
    if (auto* attention = std::get_if<AttentionCache>(&cache)) {
      if (attention->span.kind == SpanKind::kCross && !rules_.cross_attention) {
        return setting_error("model",
                             "how this engine sizes the cross attention of an encoder-decoder "
                             "model is not understood",
                             ErrorCode::kUnsupported);
      }
      if (rules_.values_as_wide_as_keys) {
        attention->value_dim = attention->key_dim;
      }
      flatten(attention->span);
    } else if (auto* latent = std::get_if<LatentCache>(&cache)) {
      flatten(latent->span);
    } else if (auto* state = std::get_if<StateCache>(&cache)) {
      state->matrix_dtype =
          rules_.state_dtype.has_value() ? rules_.state_dtype : state->matrix_dtype;
      state->conv_dtype =
          rules_.conv_state_dtype.has_value() ? rules_.conv_state_dtype : state->conv_dtype;
    }
    return {};
  }

  void flatten(Span& span) const {
    if (rules_.windows_in_full && span.kind != SpanKind::kCross) {
      span = Span{};
    }
  }

  Result<std::vector<LayerGeometry>> geometry(std::span<const ModelLayer> layers) const {
    const CacheFormats formats{.kv = rules_.key_format.carrier, .conv_state = native_};
    return layer_geometry(layers, {.tensor = rules_.tensor}, formats);
  }

  Result<void> add_part(std::int64_t layer, const LayerCache& cache, const LayerGeometry& part) {
    CacheSlice slice{.layer = layer, .draft = draft_, .kind = part.kind, .span = part.span};
    slice.heads = part.kv_heads.count();
    slice.key_dim = part.key_dim;
    slice.value_dim = part.value_dim;
    if (const auto* state = std::get_if<StateCache>(&cache)) {
      add_state(*state, part, slice);
      slices_.push_back(slice);
      return {};
    }
    if (rules_.key_format.rule == RowRule::kTurboquant && part.kind == CacheKind::kLatent) {
      return setting_error("kv_dtype", "packed formats keep keys and values, not MLA records",
                           ErrorCode::kUnsupported);
    }
    if (auto added = add_rows(part, rules_, slice); !added) {
      return std::move(added).error();
    }
    if (part.kind == CacheKind::kLatent && rules_.mla == MlaMode::kLatentAndCopy) {
      add_latent_copy(slice);
    }
    slices_.push_back(slice);
    return {};
  }

  /// The V cache that holds the latent part once more.
  void add_latent_copy(CacheSlice& slice) const {
    const EngineFormat& format = rules_.value_format;
    const CheckedInt elements{slice.key_dim};
    slice.value_bytes =
        (format.rule == RowRule::kBlocks ? floor_div(elements, kBlockElements) * format.block_bytes
                                         : elements * element_bytes(format.carrier))
            .saturated();
  }

  static void add_state(const StateCache& state, const LayerGeometry& part, CacheSlice& slice) {
    slice.family = state.family;
    slice.conv_columns = state.conv_kernel - 1;
    slice.conv_channels =
        slice.conv_columns > 0 ? part.conv_elements / slice.conv_columns : state.conv_channels;
    slice.conv_column_bytes =
        (CheckedInt{slice.conv_channels} * element_bytes(part.conv_dtype)).saturated();
    slice.matrix_bytes = (CheckedInt{part.matrix_elements} * element_bytes(part.dtype)).saturated();
  }

  const SliceRules& rules_;
  bool draft_;
  KvDtype native_;
  std::vector<CacheSlice> slices_;
};

KvDtype native_of(const ModelConfig& model) { return model.native_dtype.value_or(KvDtype::kBf16); }

/// `fp8_ds_mla` is a format of MLA records; other layers keep plain fp8 beside them.
SliceRules rules_for(const LayerCache& cache, const SliceRules& rules) {
  if (!std::holds_alternative<AttentionCache>(cache) || !is_latent_only(rules.key_format.carrier)) {
    return rules;
  }
  SliceRules plain = rules;
  plain.key_format = engine_format(KvDtype::kFp8E4m3);
  plain.value_format = plain.key_format;
  return plain;
}

}  // namespace

std::int64_t CacheSlice::kept_tokens(std::int64_t length) const noexcept {
  switch (span.kind) {
    case SpanKind::kFull: return length;
    case SpanKind::kSlidingWindow:
    case SpanKind::kChunked: return std::min(length, span.extent.count());
    case SpanKind::kCross: return span.extent.count();
  }
  return length;
}

EngineFormat cache_format(const EngineSettings& settings, const ModelConfig& model) {
  if (settings.kv_format.has_value()) {
    return *settings.kv_format;
  }
  return engine_format(model.checkpoint_kv_dtype.value_or(native_of(model)));
}

std::vector<LayerCache> copied_layer(const ModelConfig& model) {
  if (!model.mtp_layer.empty()) {
    return model.mtp_layer;
  }
  const ModelLayer* best = nullptr;
  int best_rank = 0;
  const auto rank_of = [](Span span) { return span.kind == SpanKind::kFull ? 10 : 1; };
  for (const ModelLayer& layer : model.layers) {
    int rank = 0;
    for (const LayerCache& cache : layer.caches) {
      if (const auto* attention = std::get_if<AttentionCache>(&cache)) {
        rank += rank_of(attention->span);
      } else if (const auto* latent = std::get_if<LatentCache>(&cache)) {
        rank += rank_of(latent->span);
      } else if (std::holds_alternative<IndexerCache>(cache)) {
        rank += 1;
      }
    }
    if (rank > best_rank) {
      best = &layer;
      best_rank = rank;
    }
  }
  return best == nullptr ? std::vector<LayerCache>{} : best->caches;
}

Result<std::vector<CacheSlice>> model_slices(const ModelConfig& model, const SliceRules& rules) {
  Slicer slicer{rules, false, native_of(model)};
  for (const ModelLayer& layer : model.layers) {
    for (const LayerCache& cache : layer.caches) {
      if (auto added = slicer.add(layer.index.value(), cache); !added) {
        return std::move(added).error();
      }
    }
  }
  return std::move(slicer).take();
}

Result<DraftSlices> draft_slices(const EngineRequest& request, const SliceRules& rules) {
  DraftSlices out;
  if (!request.drafter.has_value()) {
    return out;
  }
  const EngineDrafter& drafter = *request.drafter;
  const auto first = static_cast<std::int64_t>(request.target.layers.size());
  std::vector<std::vector<LayerCache>> layers;
  if (drafter.model.has_value()) {
    for (const ModelLayer& layer : drafter.model->layers) {
      layers.push_back(layer.caches);
    }
  } else {
    const bool keeps_none =
        drafter.kind == DrafterKind::kNgram || drafter.kind == DrafterKind::kSuffixAutomaton;
    if (keeps_none) {
      return out;
    }
    std::int64_t count = drafter.num_layers.value_or(0);
    if (!drafter.num_layers.has_value()) {
      if (drafter.kind != DrafterKind::kMtp) {
        out.known = false;
        return out;
      }
      // A checkpoint without a count of them has one, which is run again for every token.
      count = std::max<std::int64_t>(request.target.mtp_layers.count(), 1);
    }
    if (count < 0 || count > kLargestDraft) {
      return setting_error("drafter.num_layers", fmt::format("0 to {} layers", kLargestDraft));
    }
    layers.assign(static_cast<std::size_t>(count), copied_layer(request.target));
  }
  const KvDtype native = native_of(drafter.model.has_value() ? *drafter.model : request.target);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    out.layers += layers[i].empty() ? 0 : 1;
    for (const LayerCache& cache : layers[i]) {
      const SliceRules own = rules_for(cache, rules);
      Slicer slicer{own, true, native};
      if (auto added = slicer.add(first + static_cast<std::int64_t>(i), cache); !added) {
        return std::move(added).error();
      }
      for (CacheSlice& slice : std::move(slicer).take()) {
        out.slices.push_back(slice);
      }
    }
  }
  return out;
}

std::int64_t stage_of_layer(std::int64_t layer, std::int64_t layers, std::int64_t stages) noexcept {
  const std::int64_t base = layers / stages;
  const std::int64_t extra = layers % stages;
  const std::int64_t first_extra = stages - 1 - extra;
  const std::int64_t before = base * first_extra;
  if (layer < before) {
    return layer / base;
  }
  return std::min(first_extra + (layer - before) / (base + 1), stages - 1);
}

std::vector<std::vector<CacheSlice>> by_stage(const std::vector<CacheSlice>& slices,
                                              std::int64_t layers, std::int64_t stages) {
  std::vector<std::vector<CacheSlice>> out(static_cast<std::size_t>(stages));
  for (const CacheSlice& slice : slices) {
    out[static_cast<std::size_t>(stage_of_layer(slice.layer, layers, stages))].push_back(slice);
  }
  return out;
}

std::string describe(const CacheSlice& slice) {
  switch (slice.kind) {
    case CacheKind::kState: return fmt::format("state {}", to_string(slice.family));
    case CacheKind::kIndexer: return fmt::format("indexer {}", slice.key_dim);
    case CacheKind::kLatent: return fmt::format("latent {}+{}", slice.key_dim, slice.value_dim);
    case CacheKind::kKeyValue:
    case CacheKind::kLatentTail: break;
  }
  const std::string widths = slice.key_dim == slice.value_dim
                                 ? fmt::format("{}", slice.key_dim)
                                 : fmt::format("{}/{}", slice.key_dim, slice.value_dim);
  return fmt::format("{} {}x{}", group_name(LayerGroup{.span = slice.span}), slice.heads, widths);
}

Error setting_error(std::string_view key, std::string message, ErrorCode code) {
  return Error{.code = code, .message = std::move(message), .key = std::string{key}};
}

}  // namespace kvpool::detail
