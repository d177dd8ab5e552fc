// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/layout/page_geometry.hpp>

#include <kvpool/core/checked.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>

namespace kvpool {
namespace {

constexpr std::int64_t kLargestPage = 65536;
constexpr std::int64_t kFp4MlaPage = 128;

/// Appends planes one behind the other; overflow is remembered and asked for at the end.
class PageBuilder {
 public:
  PageBuilder(Tokens slots, RowOrder order) : slots_{slots}, order_{order} {}

  /// Rows that are addressed one by one: each starts at a multiple of the row alignment.
  void add_rows(const LayerGeometry& layer, PlaneKind kind, std::int64_t elements, Bytes row) {
    const CheckedInt alignment{kRowAlignment.count()};
    const CheckedInt stride = ceil_div(CheckedInt{row.count()}, alignment) * alignment;
    add(layer, kind, layer.dtype, elements, row, Bytes{narrow(stride)});
  }

  /// Scales, packed; an empty plane is left out.
  void add_scales(const LayerGeometry& layer, PlaneKind kind, Bytes row) {
    if (row.count() > 0) {
      add(layer, kind, layer.dtype, 0, row, row);
    }
  }

  /// One array per sequence; an empty one is left out.
  void add_state(const LayerGeometry& layer, PlaneKind kind, KvDtype dtype, std::int64_t elements,
                 CheckedInt bytes) {
    const std::int64_t size = narrow(bytes);
    if (size > 0) {
      add(layer, kind, dtype, elements, Bytes{size}, Bytes{size});
    }
  }

  [[nodiscard]] bool overflowed() const { return overflowed_; }
  [[nodiscard]] std::vector<PlaneGeometry> take_planes() && { return std::move(planes_); }
  [[nodiscard]] Bytes size() const { return end_; }

 private:
  void add(const LayerGeometry& layer, PlaneKind kind, KvDtype dtype, std::int64_t elements,
           Bytes row, Bytes stride) {
    const std::int64_t heads = layer.kv_heads.count();
    const std::int64_t slots = slots_.count();
    const std::int64_t alignment = kRowAlignment.count();
    const std::int64_t per_head = narrow(CheckedInt{stride.count()} * slots);
    const std::int64_t per_slot = narrow(CheckedInt{stride.count()} * heads);
    const std::int64_t plane = narrow(
        ceil_div(CheckedInt{stride.count()} * slots * heads, CheckedInt{alignment}) * alignment);
    const bool heads_first = order_ == RowOrder::kHnd;
    planes_.push_back({.layer = layer.layer,
                       .kind = kind,
                       .dtype = dtype,
                       .row_elements = elements,
                       .heads = layer.kv_heads,
                       .slots = slots_,
                       .row_bytes = row,
                       .slot_stride = heads_first ? stride : Bytes{per_slot},
                       .head_stride = heads_first ? Bytes{per_head} : stride,
                       .offset = end_,
                       .bytes = Bytes{plane}});
    end_ = Bytes{narrow(CheckedInt{end_.count()} + plane)};
  }

  std::int64_t narrow(CheckedInt value) {
    const auto exact = value.to_int64();
    overflowed_ = overflowed_ || !exact.has_value();
    return exact.value_or(0);
  }

  Tokens slots_;
  RowOrder order_;
  std::vector<PlaneGeometry> planes_;
  Bytes end_;
  bool overflowed_ = false;
};

Error invalid(std::string key, std::string message) {
  return {
      .code = ErrorCode::kInvalidArgument, .message = std::move(message), .key = std::move(key)};
}

CheckedInt element_bytes(KvDtype dtype, std::int64_t elements) {
  return CheckedInt{elements} * plain_element_bytes(dtype).value_or(Bytes{0}).count();
}

/// Adds the planes of one cache.
Result<void> add_layer(PageBuilder& page, const LayerGeometry& layer, Tokens tokens_per_block) {
  switch (layer.kind) {
    case CacheKind::kKeyValue: {
      const auto key = key_value_row(layer.dtype, layer.key_dim);
      const auto value = key_value_row(layer.dtype, layer.value_dim);
      if (!key.has_value() || !value.has_value()) {
        return invalid("kv_cache_dtype", fmt::format("{} has no form for keys and values per head",
                                                     to_string(layer.dtype)));
      }
      page.add_rows(layer, PlaneKind::kKey, layer.key_dim, key->data);
      page.add_rows(layer, PlaneKind::kValue, layer.value_dim, value->data);
      page.add_scales(layer, PlaneKind::kKeyScales, key->scales);
      page.add_scales(layer, PlaneKind::kValueScales, value->scales);
      return {};
    }
    case CacheKind::kLatent: {
      if (layer.dtype == KvDtype::kFp4Mla && tokens_per_block.count() != kFp4MlaPage) {
        return Error{.code = ErrorCode::kUnsupported,
                     .message = fmt::format("fp4_mla is laid out in pages of {} tokens, not {}",
                                            kFp4MlaPage, tokens_per_block.count()),
                     .key = "tokens_per_block"};
      }
      const auto row = latent_row(layer.dtype, layer.key_dim, layer.value_dim);
      if (!row.has_value()) {
        return invalid("kv_cache_dtype",
                       fmt::format("{} has no latent form", to_string(layer.dtype)));
      }
      page.add_rows(layer, PlaneKind::kLatent,
                    (CheckedInt{layer.key_dim} + layer.value_dim).saturated(), row->data);
      page.add_scales(layer, PlaneKind::kLatentScales, row->scales);
      return {};
    }
    case CacheKind::kIndexer: {
      const RowBytes row = indexer_row(layer.key_dim);
      page.add_rows(layer, PlaneKind::kIndexer, layer.key_dim, row.data);
      page.add_scales(layer, PlaneKind::kIndexerScales, row.scales);
      return {};
    }
    case CacheKind::kState: {
      if (!plain_element_bytes(layer.conv_dtype).has_value() ||
          !plain_element_bytes(layer.dtype).has_value()) {
        return invalid("state_dtype", "a recurrent state needs a plain element type");
      }
      page.add_state(layer, PlaneKind::kConvState, layer.conv_dtype, layer.conv_elements,
                     element_bytes(layer.conv_dtype, layer.conv_elements));
      page.add_state(layer, PlaneKind::kMatrixState, layer.dtype, layer.matrix_elements,
                     element_bytes(layer.dtype, layer.matrix_elements));
      return {};
    }
    case CacheKind::kLatentTail: {
      const std::int64_t element = plain_element_bytes(KvDtype::kBf16).value_or(Bytes{1}).count();
      page.add_state(layer, PlaneKind::kLatentTail, KvDtype::kBf16,
                     layer.tail_bytes.count() / element, CheckedInt{layer.tail_bytes.count()});
      return {};
    }
  }
  return {};
}

}  // namespace

std::string_view to_string(PageLayout layout) noexcept {
  const bool heads_first = layout.rows == RowOrder::kHnd;
  if (layout.pages == PageOrder::kPageMajor) {
    return heads_first ? "page_major_hnd" : "page_major_nhd";
  }
  return heads_first ? "layer_major_hnd" : "layer_major_nhd";
}

std::string_view to_string(PlaneKind kind) noexcept {
  switch (kind) {
    case PlaneKind::kKey: return "key";
    case PlaneKind::kValue: return "value";
    case PlaneKind::kKeyScales: return "key_scales";
    case PlaneKind::kValueScales: return "value_scales";
    case PlaneKind::kLatent: return "latent";
    case PlaneKind::kLatentScales: return "latent_scales";
    case PlaneKind::kIndexer: return "indexer";
    case PlaneKind::kIndexerScales: return "indexer_scales";
    case PlaneKind::kConvState: return "conv_state";
    case PlaneKind::kMatrixState: return "matrix_state";
    case PlaneKind::kLatentTail: return "latent_tail";
  }
  return "key";
}

Result<PageGeometry> page_geometry(const LayerGroup& group, Tokens tokens_per_block,
                                   PageLayout layout) {
  if (group.is_state ? tokens_per_block.count() != 0
                     : tokens_per_block.count() < 1 || tokens_per_block.count() > kLargestPage) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = group.is_state ? fmt::format("slots of state hold no tokens, not {}",
                                                         tokens_per_block.count())
                                           : fmt::format("a page holds 1 to {} tokens, not {}",
                                                         kLargestPage, tokens_per_block.count()),
                 .key = "tokens_per_block",
                 .value = fmt::format("{}", tokens_per_block.count())};
  }
  PageBuilder page{group.is_state ? Tokens{1} : tokens_per_block, layout.rows};
  for (const LayerGeometry& layer : group.layers) {
    if (auto added = add_layer(page, layer, tokens_per_block); !added) {
      return std::move(added).error();
    }
  }
  if (page.overflowed()) {
    return Error{.code = ErrorCode::kOutOfRange,
                 .message = fmt::format("a page of {} tokens over {} caches exceeds 2^63 bytes",
                                        tokens_per_block.count(), group.layers.size()),
                 .key = "tokens_per_block"};
  }
  const Bytes size = page.size();
  if (size.count() == 0) {
    return invalid("layers",
                   fmt::format("the caches of group {} have no bytes", group_name(group)));
  }
  return PageGeometry{.tokens_per_block = tokens_per_block,
                      .page_bytes = size,
                      .layout = layout,
                      .planes = std::move(page).take_planes()};
}

}  // namespace kvpool
