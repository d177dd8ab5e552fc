// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/layout/layer_geometry.hpp>

#include <kvpool/core/checked.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>

namespace kvpool {
namespace {

/// Turns the caches of one layer into geometries; the first failure is kept.
class GeometryBuilder {
 public:
  GeometryBuilder(const Parallelism& parallelism, const CacheFormats& formats)
      : parallelism_{parallelism}, formats_{formats} {}

  void start_layer(LayerIndex layer) { layer_ = layer; }

  void operator()(const AttentionCache& cache) {
    if (!key_value_row(formats_.kv, cache.key_dim).has_value()) {
      fail(ErrorCode::kUnsupported, "kv_cache_dtype",
           fmt::format("layer {} keeps keys and values per head, and {} is a format of MLA latent "
                       "caches only; choose a plain one, such as bf16 or fp8_e4m3",
                       layer_.value(), to_string(formats_.kv)));
      return;
    }
    geometries_.push_back({.layer = layer_,
                           .kind = CacheKind::kKeyValue,
                           .dtype = formats_.kv,
                           .query_heads = heads_per_rank(cache.query_heads, parallelism_),
                           .kv_heads = heads_per_rank(cache.kv_heads, parallelism_),
                           .key_dim = cache.key_dim,
                           .value_dim = cache.value_dim,
                           .span = cache.span});
  }

  void operator()(const LatentCache& cache) {
    if (!latent_row(formats_.kv, cache.latent_dim, cache.rope_dim).has_value()) {
      fail(ErrorCode::kUnsupported, "kv_cache_dtype",
           fmt::format("layer {} keeps an MLA latent of {} + {} elements, which {} cannot store; "
                       "choose bf16, fp8_e4m3, fp8_ds_mla or fp4_mla",
                       layer_.value(), cache.latent_dim, cache.rope_dim, to_string(formats_.kv)));
      return;
    }
    geometries_.push_back({.layer = layer_,
                           .kind = CacheKind::kLatent,
                           .dtype = formats_.kv,
                           .query_heads = heads_per_rank(cache.query_heads, parallelism_),
                           .kv_heads = Heads{1},
                           .key_dim = cache.latent_dim,
                           .value_dim = cache.rope_dim,
                           .span = cache.span});
    const Bytes tail =
        latent_tail(formats_.kv, cache.latent_dim, cache.rope_dim, formats_.max_rewind);
    if (tail.count() > 0) {
      geometries_.push_back({.layer = layer_,
                             .kind = CacheKind::kLatentTail,
                             .dtype = KvDtype::kBf16,
                             .kv_heads = Heads{1},
                             .tail_bytes = tail});
    }
  }

  void operator()(const IndexerCache& cache) {
    geometries_.push_back({.layer = layer_,
                           .kind = CacheKind::kIndexer,
                           .dtype = KvDtype::kFp8E4m3,
                           .kv_heads = Heads{1},
                           .key_dim = cache.key_dim});
  }

  void operator()(const StateCache& cache) {
    const std::int64_t tp = state_parallel_size(parallelism_);
    const std::int64_t divided_channels =
        (CheckedInt{cache.conv_channels} - CheckedInt{cache.groups} * cache.channels_per_group)
            .saturated();
    if ((cache.heads > 0 && cache.heads % tp != 0) || divided_channels % tp != 0 ||
        cache.matrix_elements % tp != 0) {
      fail(ErrorCode::kInvalidArgument, "tensor_parallel_size",
           fmt::format(
               "layer {} keeps a {} state of {} heads and {} convolution channels, which {} "
               "ranks do not divide",
               layer_.value(), to_string(cache.family), cache.heads, cache.conv_channels, tp));
      return;
    }
    // Groups that TP does not divide are replicated: a rank keeps those that its heads use.
    const CheckedInt local_channels =
        CheckedInt{divided_channels / tp} +
        CheckedInt{ceil_div(cache.groups, tp)} * cache.channels_per_group;
    geometries_.push_back(
        {.layer = layer_,
         .kind = CacheKind::kState,
         .dtype = cache.matrix_dtype.value_or(formats_.matrix_state),
         .kv_heads = Heads{1},
         .conv_elements = (local_channels * (CheckedInt{cache.conv_kernel} - 1)).saturated(),
         .conv_dtype = cache.conv_dtype.value_or(formats_.conv_state),
         .matrix_elements = cache.matrix_elements / tp});
  }

  [[nodiscard]] Result<std::vector<LayerGeometry>> take() && {
    if (error_.has_value()) {
      return *std::move(error_);
    }
    return std::move(geometries_);
  }

 private:
  void fail(ErrorCode code, std::string key, std::string message) {
    if (!error_.has_value()) {
      error_ = Error{.code = code, .message = std::move(message), .key = std::move(key)};
    }
  }

  Parallelism parallelism_;
  CacheFormats formats_;
  LayerIndex layer_;
  std::vector<LayerGeometry> geometries_;
  std::optional<Error> error_;
};

}  // namespace

std::string_view to_string(CacheKind kind) noexcept {
  switch (kind) {
    case CacheKind::kKeyValue: return "key_value";
    case CacheKind::kLatent: return "latent";
    case CacheKind::kIndexer: return "indexer";
    case CacheKind::kState: return "state";
    case CacheKind::kLatentTail: return "latent_tail";
  }
  return "key_value";
}

Result<std::vector<LayerGeometry>> layer_geometry(std::span<const ModelLayer> layers,
                                                  const Parallelism& parallelism,
                                                  const CacheFormats& formats) {
  GeometryBuilder builder{parallelism, formats};
  for (const ModelLayer& layer : layers) {
    builder.start_layer(layer.index);
    for (const LayerCache& cache : layer.caches) {
      std::visit(builder, cache);
    }
  }
  return std::move(builder).take();
}

}  // namespace kvpool
