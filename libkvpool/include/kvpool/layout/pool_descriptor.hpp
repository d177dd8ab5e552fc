// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/layout/layer_group.hpp>
#include <kvpool/layout/page_geometry.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool {

/// Whose cache a pool holds.
enum class PoolRole {
  kTarget,  ///< the target model's pages
  kDraft,   ///< a drafter's pages
  kState,   ///< slots of recurrent state, of either model
};

/// Stable lower-case name: `target`, `draft`, `state`.
[[nodiscard]] std::string_view to_string(PoolRole role) noexcept;

/// A group inside a pool.
struct PooledGroup {
  /// The caches.
  LayerGroup group{};
  /// One page of them.
  PageGeometry page{};
  /// Pages of this group that a slab holds.
  std::int64_t pages_per_slab = 1;
  /// Usable slabs that the plan sets aside for this group; in a shared pool they move between
  /// groups at run time.
  Slabs planned_slabs{};

  /// Usable pages that the plan sets aside.
  [[nodiscard]] Pages planned_pages() const noexcept {
    return Pages{planned_slabs.count() * pages_per_slab};
  }
  /// Field by field.
  friend bool operator==(const PooledGroup&, const PooledGroup&) = default;
};

/// One pool: equal slabs of one region. Immutable once planned; every reader of the pool gets this.
struct PoolDescriptor {
  /// Unique in its plan: `target`, `draft`, `state`, `draft_state`, or with its group where groups
  /// have pools of their own (`target/full`).
  std::string name{};
  /// Whose cache it holds.
  PoolRole role = PoolRole::kTarget;
  /// Groups that share its slabs; a pool with one group has slab = page.
  std::vector<PooledGroup> groups{};
  /// Unit of table entries: address = base + entry * unit_bytes. The greatest common divisor of the
  /// groups' page bytes.
  Bytes unit_bytes{};
  /// Size of one slab.
  Bytes slab_bytes{};
  /// Unit in which its memory is mapped.
  Bytes granularity{};
  /// Usable slabs.
  Slabs slabs{};
  /// Slabs at the start that no sequence gets (guard for padded rows).
  Slabs reserved_slabs{};

  /// All slabs, reserved ones included; in a pool with one group the rows of its views.
  [[nodiscard]] Slabs total_slabs() const noexcept { return slabs + reserved_slabs; }
  /// Size of the pool: all its slabs, reserved ones included.
  [[nodiscard]] Bytes bytes() const noexcept { return total_slabs().count() * slab_bytes; }
  /// Bytes charged to the budget and held: `bytes()` in whole granules.
  [[nodiscard]] Bytes charged_bytes() const noexcept { return charged_bytes(slabs); }
  /// What a pool of this shape with so many usable slabs is charged; 2^63 - 1 when it is more.
  [[nodiscard]] Bytes charged_bytes(Slabs usable) const noexcept;
  /// Most usable slabs whose charge stays within `share`; negative when not even the reserved fit.
  [[nodiscard]] Slabs most_slabs_within(Bytes share) const noexcept;
  /// Bytes inside usable slabs that no page of the planned partition covers.
  [[nodiscard]] Bytes slab_waste() const noexcept;

  /// Field by field.
  friend bool operator==(const PoolDescriptor&, const PoolDescriptor&) = default;
};

/// Format, shape and place of one layer's cache inside a pool, as a tensor.
struct TensorView {
  /// Layer in its model.
  LayerIndex layer{};
  /// First plane of the view; a view of K and V together starts at the key.
  PlaneKind kind = PlaneKind::kKey;
  /// Format of the elements.
  KvDtype dtype = KvDtype::kBf16;
  /// Extents: [rows, 2, heads, slots, dim] for K and V of equal width, [rows, heads, slots, dim]
  /// for K or V alone, [rows, slots, dim] for latent and indexer (in bytes for record formats and
  /// scales), [rows, elements] for states. Rows include the reserved ones, so a page id indexes
  /// them.
  std::vector<std::int64_t> shape{};
  /// Distances between neighbours of each extent, in bytes.
  std::vector<std::int64_t> strides{};
  /// Start of the view, from the pool's base.
  Bytes offset{};

  /// `strides` counted in elements, as tensor libraries take them.
  [[nodiscard]] std::vector<std::int64_t> element_strides() const;

  /// Field by field.
  friend bool operator==(const TensorView&, const TensorView&) = default;
};

/// The views of one group: one or more per layer, in layer order.
/// @pre `group` indexes `pool.groups`
[[nodiscard]] std::vector<TensorView> views_of(const PoolDescriptor& pool, std::size_t group);

/// A range of bytes inside a pool.
struct PoolRange {
  /// First byte, from the pool's base.
  Bytes offset{};
  /// Length.
  Bytes size{};

  /// Field by field.
  friend bool operator==(const PoolRange&, const PoolRange&) = default;
};

/// Where the reserved pages lie: one range at the start of a page-major pool, one at the start of
/// each layer of a layer-major one; none when nothing is reserved.
[[nodiscard]] std::vector<PoolRange> reserved_ranges(const PoolDescriptor& pool);

/// What a pool is made of, before its size is known.
struct PoolShape {
  /// Unique name in its plan.
  std::string name{};
  /// Whose cache it holds.
  PoolRole role = PoolRole::kTarget;
  /// Groups that live in it.
  std::vector<LayerGroup> groups{};
  /// Token slots of a page; ignored for a group of states.
  Tokens tokens_per_block{};
  /// Order inside the pool.
  PageLayout layout{};
  /// Unit in which its memory is mapped.
  Bytes granularity{};
  /// Pages (slabs, where groups share) kept back at the start.
  Slabs reserved_slabs{};
};

/// Lays out every group of `shape` and fixes unit and slab; `slabs` is left at 0.
/// @return the descriptor; `kUnsupported` when several groups have no common slab (see
///   `shared_slab`) or a layer-major pool has more than one group; else what `page_geometry` says
[[nodiscard]] Result<PoolDescriptor> describe_pool(const PoolShape& shape);

/// Slab shared by groups: the smallest size up to 64 MiB of which every group wastes at most 1 %.
/// @param page_bytes page sizes of the groups
/// @return the slab, or nothing when there is none and the groups need pools of their own
[[nodiscard]] std::optional<Bytes> shared_slab(std::span<const Bytes> page_bytes) noexcept;

/// Greatest common divisor of page sizes: the unit of table entries.
[[nodiscard]] Bytes unit_of(std::span<const Bytes> page_bytes) noexcept;

}  // namespace kvpool
