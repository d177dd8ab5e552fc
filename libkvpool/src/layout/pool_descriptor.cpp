// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/layout/pool_descriptor.hpp>

#include <kvpool/core/checked.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace kvpool {
namespace {

constexpr Bytes kLargestSharedSlab{64 << 20};
/// A slab may waste one part in this many for any of its groups.
constexpr std::int64_t kSlabWasteDivisor = 100;

bool wastes_too_much(Bytes slab, Bytes page) noexcept {
  return (slab % page).count() > slab.count() / kSlabWasteDivisor;
}

Error unsupported(std::string message) {
  return {.code = ErrorCode::kUnsupported, .message = std::move(message)};
}

bool is_scale_plane(PlaneKind kind) noexcept {
  return kind == PlaneKind::kKeyScales || kind == PlaneKind::kValueScales ||
         kind == PlaneKind::kLatentScales || kind == PlaneKind::kIndexerScales;
}

bool is_state_plane(PlaneKind kind) noexcept {
  return kind == PlaneKind::kConvState || kind == PlaneKind::kMatrixState ||
         kind == PlaneKind::kLatentTail;
}

/// Extent and stride of the innermost dimension. Packed formats and scales are seen as bytes.
struct RowExtent {
  std::int64_t count = 0;
  std::int64_t stride = 1;
};

RowExtent row_extent(const PlaneGeometry& plane) noexcept {
  const bool whole_elements = !is_scale_plane(plane.kind) && plane.row_elements > 0 &&
                              plane.row_bytes.count() % plane.row_elements == 0 &&
                              !is_latent_only(plane.dtype);
  if (!whole_elements) {
    return {.count = plane.row_bytes.count(), .stride = 1};
  }
  return {.count = plane.row_elements, .stride = plane.row_bytes.count() / plane.row_elements};
}

/// Rows of a pool and where a plane of row 0 starts.
struct Placement {
  std::int64_t rows = 0;
  std::int64_t row_stride = 0;
  Bytes offset;
};

/// Bytes of one layer inside a page: its planes are adjacent.
struct LayerExtent {
  Bytes first;
  Bytes end;
};

LayerExtent layer_extent(const PageGeometry& page, LayerIndex layer) noexcept {
  LayerExtent extent{.first = page.page_bytes, .end = Bytes{0}};
  for (const PlaneGeometry& plane : page.planes) {
    if (plane.layer == layer) {
      extent.first = std::min(extent.first, plane.offset);
      extent.end = std::max(extent.end, plane.offset + plane.bytes);
    }
  }
  return extent;
}

Placement place(const PoolDescriptor& pool, const PooledGroup& group, const PlaneGeometry& plane) {
  const PageGeometry& page = group.page;
  if (page.layout.pages == PageOrder::kLayerMajor) {
    const std::int64_t rows = pool.bytes() / page.page_bytes;
    const LayerExtent layer = layer_extent(page, plane.layer);
    return {.rows = rows,
            .row_stride = (layer.end - layer.first).count(),
            .offset = layer.first * rows + (plane.offset - layer.first)};
  }
  // Table entries count units; the last rows whose page would leave the pool are not rows.
  const std::int64_t rows =
      pool.bytes() < page.page_bytes ? 0 : (pool.bytes() - page.page_bytes) / pool.unit_bytes + 1;
  return {.rows = rows, .row_stride = pool.unit_bytes.count(), .offset = plane.offset};
}

/// K and V of one width, one behind the other, are exported as one tensor.
bool joins_with_value(const PlaneGeometry& key, const PlaneGeometry& value) noexcept {
  return key.kind == PlaneKind::kKey && value.kind == PlaneKind::kValue &&
         key.layer == value.layer && key.row_elements == value.row_elements &&
         key.bytes == value.bytes;
}

TensorView view_of(const Placement& placement, const PlaneGeometry& plane, RowOrder order,
                   const PlaneGeometry* value) {
  TensorView view{.layer = plane.layer,
                  .kind = plane.kind,
                  .dtype = plane.dtype,
                  .shape = {placement.rows},
                  .strides = {placement.row_stride},
                  .offset = placement.offset};
  const auto add = [&view](std::int64_t extent, std::int64_t stride) {
    view.shape.push_back(extent);
    view.strides.push_back(stride);
  };
  if (value != nullptr) {
    add(2, (value->offset - plane.offset).count());
  }
  const bool per_head = plane.kind == PlaneKind::kKey || plane.kind == PlaneKind::kValue ||
                        plane.kind == PlaneKind::kKeyScales ||
                        plane.kind == PlaneKind::kValueScales;
  if (per_head && order == RowOrder::kHnd) {
    add(plane.heads.count(), plane.head_stride.count());
  }
  if (!is_state_plane(plane.kind)) {
    add(plane.slots.count(), plane.slot_stride.count());
  }
  if (per_head && order == RowOrder::kNhd) {
    add(plane.heads.count(), plane.head_stride.count());
  }
  const RowExtent row = row_extent(plane);
  add(row.count, row.stride);
  return view;
}

}  // namespace

std::string_view to_string(PoolRole role) noexcept {
  switch (role) {
    case PoolRole::kTarget: return "target";
    case PoolRole::kDraft: return "draft";
    case PoolRole::kState: return "state";
  }
  return "target";
}

std::vector<std::int64_t> TensorView::element_strides() const {
  // Rows are multiples of 16 bytes, so every stride is one of the innermost.
  std::vector<std::int64_t> elements = strides;
  for (std::int64_t& stride : elements) {
    stride /= strides.back();
  }
  return elements;
}

Bytes PoolDescriptor::charged_bytes(Slabs usable) const noexcept {
  const CheckedInt bytes =
      (CheckedInt{usable.count()} + reserved_slabs.count()) * slab_bytes.count();
  return Bytes{
      (ceil_div(bytes, CheckedInt{granularity.count()}) * granularity.count()).saturated()};
}

Slabs PoolDescriptor::most_slabs_within(Bytes share) const noexcept {
  if (share.count() < 0) {
    return Slabs{-1};
  }
  const Bytes whole_granules = share / granularity * granularity;
  return Slabs{whole_granules / slab_bytes} - reserved_slabs;
}

Bytes PoolDescriptor::slab_waste() const noexcept {
  Bytes waste;
  for (const PooledGroup& group : groups) {
    waste +=
        group.planned_slabs.count() * (slab_bytes - group.pages_per_slab * group.page.page_bytes);
  }
  return waste;
}

Result<PoolDescriptor> describe_pool(const PoolShape& shape) {
  if (shape.groups.empty()) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .message = fmt::format("pool {} has no layers", shape.name)};
  }
  if (shape.layout.pages == PageOrder::kLayerMajor && shape.groups.size() > 1) {
    return unsupported("a layer-major pool holds one group: slabs need whole pages");
  }
  PoolDescriptor pool{.name = shape.name,
                      .role = shape.role,
                      .granularity = shape.granularity,
                      .reserved_slabs = shape.reserved_slabs};
  std::vector<Bytes> page_bytes;
  for (const LayerGroup& group : shape.groups) {
    auto page =
        page_geometry(group, group.is_state ? Tokens{0} : shape.tokens_per_block, shape.layout);
    if (!page) {
      return std::move(page).error();
    }
    page_bytes.push_back(page->page_bytes);
    pool.groups.push_back({.group = group, .page = *std::move(page)});
  }
  const auto slab =
      page_bytes.size() == 1 ? std::optional{page_bytes.front()} : shared_slab(page_bytes);
  if (!slab.has_value()) {
    return unsupported(fmt::format(
        "no slab of up to {} bytes holds whole pages of every group with at most 1 % waste",
        kLargestSharedSlab.count()));
  }
  pool.slab_bytes = *slab;
  pool.unit_bytes = unit_of(page_bytes);
  for (PooledGroup& group : pool.groups) {
    group.pages_per_slab = pool.slab_bytes / group.page.page_bytes;
  }
  return pool;
}

std::vector<TensorView> views_of(const PoolDescriptor& pool, std::size_t group) {
  const PooledGroup& pooled = pool.groups[group];
  const std::vector<PlaneGeometry>& planes = pooled.page.planes;
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < planes.size(); ++i) {
    const bool joined = i + 1 < planes.size() && joins_with_value(planes[i], planes[i + 1]);
    views.push_back(view_of(place(pool, pooled, planes[i]), planes[i], pooled.page.layout.rows,
                            joined ? &planes[i + 1] : nullptr));
    i += joined ? 1 : 0;
  }
  return views;
}

std::vector<PoolRange> reserved_ranges(const PoolDescriptor& pool) {
  if (pool.reserved_slabs == Slabs{0} || pool.groups.empty()) {
    return {};
  }
  const PageGeometry& page = pool.groups.front().page;
  if (page.layout.pages == PageOrder::kPageMajor) {
    return {{.offset = Bytes{0}, .size = pool.reserved_slabs.count() * pool.slab_bytes}};
  }
  const std::int64_t rows = pool.bytes() / page.page_bytes;
  std::vector<PoolRange> ranges;
  for (const PlaneGeometry& plane : page.planes) {
    const LayerExtent layer = layer_extent(page, plane.layer);
    // The planes of a layer are adjacent: its first stands for all of them.
    if (plane.offset == layer.first) {
      ranges.push_back({.offset = layer.first * rows,
                        .size = pool.reserved_slabs.count() * (layer.end - layer.first)});
    }
  }
  return ranges;
}

std::optional<Bytes> shared_slab(std::span<const Bytes> page_bytes) noexcept {
  // Between two multiples of a page its waste only grows, so the smallest slab is a multiple of
  // some page; every group that wastes too much moves the candidate to its own next multiple.
  Bytes slab = std::ranges::max(page_bytes);
  while (slab <= kLargestSharedSlab) {
    Bytes next = slab;
    for (const Bytes page : page_bytes) {
      if (wastes_too_much(slab, page)) {
        next = std::max(next, align_up(slab, page));
      }
    }
    if (next == slab) {
      return slab;
    }
    slab = next;
  }
  return std::nullopt;
}

Bytes unit_of(std::span<const Bytes> page_bytes) noexcept {
  std::int64_t unit = 0;
  for (const Bytes page : page_bytes) {
    unit = std::gcd(unit, page.count());
  }
  return Bytes{unit};
}

}  // namespace kvpool
