// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>
#include <kvpool/core/kv_dtype.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/layout/layer_group.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvpool {

/// Alignment of pages, planes and rows inside a pool.
inline constexpr Bytes kRowAlignment{16};
/// Alignment of a pool's base address.
inline constexpr Bytes kBaseAlignment{256};

/// Order of heads and token slots inside a K or V plane.
enum class RowOrder {
  kHnd,  ///< [head][slot][dim]
  kNhd,  ///< [slot][head][dim]
};

/// Order of pages and layers inside a pool.
enum class PageOrder {
  kPageMajor,   ///< [page][layer]...: one copy moves a page
  kLayerMajor,  ///< [layer][page]...: each layer is a contiguous tensor
};

/// How a pool's memory is laid out.
struct PageLayout {
  /// Pages and layers.
  PageOrder pages = PageOrder::kPageMajor;
  /// Heads and slots.
  RowOrder rows = RowOrder::kHnd;

  /// Field by field.
  friend bool operator==(const PageLayout&, const PageLayout&) = default;
};

/// Stable name: `page_major_hnd`, `page_major_nhd`, `layer_major_hnd`, `layer_major_nhd`.
[[nodiscard]] std::string_view to_string(PageLayout layout) noexcept;

/// What a plane holds.
enum class PlaneKind {
  kKey,            ///< key rows, per KV head
  kValue,          ///< value rows, per KV head
  kKeyScales,      ///< scales of the key rows
  kValueScales,    ///< scales of the value rows
  kLatent,         ///< MLA records: latent and rope part
  kLatentScales,   ///< scales of the MLA records
  kIndexer,        ///< sparse-attention indexer keys
  kIndexerScales,  ///< scales of the indexer keys
  kConvState,      ///< convolution state of a recurrent layer
  kMatrixState,    ///< matrix (SSM) state of a recurrent layer
  kLatentTail,     ///< high-precision ring of `fp4_mla`
};

/// Stable lower-case name: `key`, `value`, `key_scales`, ... `latent_tail`.
[[nodiscard]] std::string_view to_string(PlaneKind kind) noexcept;

/// One array inside a page (or slot): rows of one kind of one cache, `heads` x `slots` of them.
/// Address of row (head h, slot s): page + offset + h * head_stride + s * slot_stride.
struct PlaneGeometry {
  /// Layer in its model.
  LayerIndex layer{};
  /// What it holds.
  PlaneKind kind = PlaneKind::kKey;
  /// Format of the elements.
  KvDtype dtype = KvDtype::kBf16;
  /// Elements of one row as the model counts them (0 for scales).
  std::int64_t row_elements = 0;
  /// Heads of one rank.
  Heads heads{};
  /// Token slots of a page; 1 for states.
  Tokens slots{};
  /// Used bytes of one row.
  Bytes row_bytes{};
  /// Distance of consecutive slots of one head.
  Bytes slot_stride{};
  /// Distance of consecutive heads of one slot.
  Bytes head_stride{};
  /// Start, from the start of the page.
  Bytes offset{};
  /// Whole size, alignment included.
  Bytes bytes{};

  /// Field by field.
  friend bool operator==(const PlaneGeometry&, const PlaneGeometry&) = default;
};

/// One page of one group on one rank, to the byte: the only place where bytes come from.
struct PageGeometry {
  /// Token slots of a page; 0 for slots of state.
  Tokens tokens_per_block{};
  /// Size of a page, and distance of consecutive pages in a page-major pool.
  Bytes page_bytes{};
  /// Order inside the page.
  PageLayout layout{};
  /// The arrays, by ascending offset; the planes of one layer are adjacent.
  std::vector<PlaneGeometry> planes{};

  /// Field by field.
  friend bool operator==(const PageGeometry&, const PageGeometry&) = default;
};

/// Lays out one page of `group`. Each layer's planes follow one another ([K][V][K scales][V
/// scales]); data rows are rounded up to 16 bytes, scale planes are packed and rounded up as a
/// whole.
/// @param tokens_per_block token slots, 1..65536; must be 0 for a state group
/// @return the geometry; `kOutOfRange` when a page does not fit into 64 bits, `kInvalidArgument`
///   for a page size outside its range, `kUnsupported` for `fp4_mla` at another page than 128
[[nodiscard]] Result<PageGeometry> page_geometry(const LayerGroup& group, Tokens tokens_per_block,
                                                 PageLayout layout);

}  // namespace kvpool
