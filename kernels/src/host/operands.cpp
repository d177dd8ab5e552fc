// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/operands.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace kvpool::kernels {
namespace {

const PlaneGeometry* find_plane(const PageGeometry& page, LayerIndex layer,
                                PlaneKind kind) noexcept {
  const auto found = std::ranges::find_if(page.planes, [&](const PlaneGeometry& plane) {
    return plane.layer == layer && plane.kind == kind;
  });
  return found == page.planes.end() ? nullptr : &*found;
}

/// Address of a plane of table entry 0, and bytes from one entry to the next. A joined view of K
/// and V starts at the key; the value lies in the page where its plane does.
struct Placed {
  std::uintptr_t address = 0;
  std::int64_t entry_stride = 0;
};

std::optional<Placed> place(const std::vector<PlacedView>& views, const PlaneGeometry& first,
                            const PlaneGeometry& plane) {
  for (const PlacedView& view : views) {
    if (view.view.layer == first.layer && view.view.kind == first.kind) {
      return Placed{
          view.address + static_cast<std::uintptr_t>((plane.offset - first.offset).count()),
          view.view.strides.front()};
    }
  }
  return std::nullopt;
}

CacheOperand operand(const Placed& placed, const PlaneGeometry& plane, ElementType type,
                     std::int64_t dim) {
  return {.base = reinterpret_cast<void*>(placed.address),  // NOLINT: an address of some memory
          .entry_stride_bytes = placed.entry_stride,
          .head_stride_bytes = plane.head_stride.count(),
          .slot_stride_bytes = plane.slot_stride.count(),
          .dim = static_cast<std::int32_t>(dim),
          .type = type};
}

}  // namespace

std::optional<ElementType> element_type(KvDtype dtype) noexcept {
  switch (dtype) {
    case KvDtype::kFp32: return ElementType::kFp32;
    case KvDtype::kBf16: return ElementType::kBf16;
    case KvDtype::kFp16: return ElementType::kFp16;
    case KvDtype::kFp8E4m3: return ElementType::kFp8E4m3;
    case KvDtype::kFp8E5m2:
    case KvDtype::kFp8E4m3PerTokenHead:
    case KvDtype::kFp8E5m2PerTokenHead:
    case KvDtype::kInt8PerTokenHead:
    case KvDtype::kNvfp4:
    case KvDtype::kFp8DsMla:
    case KvDtype::kFp4Mla: return std::nullopt;
  }
  return std::nullopt;
}

Result<CachePair> cache_operands(const PoolSet& pools, PoolId pool, std::size_t group,
                                 LayerIndex layer) {
  const PoolDescriptor& descriptor = pools.descriptor(pool);
  const PooledGroup& pooled = descriptor.groups[group];
  const auto geometry = std::ranges::find_if(pooled.group.layers, [&](const LayerGeometry& each) {
    return each.layer == layer &&
           (each.kind == CacheKind::kKeyValue || each.kind == CacheKind::kLatent);
  });
  if (geometry == pooled.group.layers.end()) {
    return Error{.code = ErrorCode::kNotFound,
                 .message = fmt::format("group {} of pool {} has no K and V or MLA cache of layer "
                                        "{}: kernels read no other",
                                        group, descriptor.name, layer.value()),
                 .key = "layer",
                 .value = fmt::format("{}", layer.value())};
  }
  const auto type = element_type(geometry->dtype);
  if (!type.has_value()) {
    return Error{.code = ErrorCode::kUnsupported,
                 .message = fmt::format("pool {} keeps {}, which is not an array of elements: "
                                        "bf16, fp16, fp32 and fp8_e4m3 are",
                                        descriptor.name, to_string(geometry->dtype)),
                 .key = "kv_cache_dtype",
                 .value = std::string{to_string(geometry->dtype)}};
  }
  const bool latent = geometry->kind == CacheKind::kLatent;
  const PageGeometry& page = pooled.page;
  const PlaneGeometry* const key =
      find_plane(page, layer, latent ? PlaneKind::kLatent : PlaneKind::kKey);
  const PlaneGeometry* const value = latent ? key : find_plane(page, layer, PlaneKind::kValue);
  const std::vector<PlacedView> views = pools.views(pool, group);
  // K and V of unequal width have views of their own; all lie in the same page.
  const auto k = key != nullptr ? place(views, *key, *key) : std::nullopt;
  const auto v = value != nullptr && k.has_value() ? place(views, *key, *value) : std::nullopt;
  if (!k.has_value() || !v.has_value()) {
    return Error{.code = ErrorCode::kInternal,
                 .message = fmt::format("pool {} has no view of the cache of layer {}",
                                        descriptor.name, layer.value())};
  }
  return CachePair{
      .k = operand(*k, *key, *type, key->row_elements),
      .v = operand(*v, *value, *type, latent ? geometry->key_dim : value->row_elements),
      .kv_heads = static_cast<std::int32_t>(geometry->kv_heads.count()),
      .query_heads = static_cast<std::int32_t>(geometry->query_heads.count()),
      .tokens_per_block = static_cast<std::int32_t>(page.tokens_per_block.count()),
      .v_aliases_k = latent};
}

}  // namespace kvpool::kernels
