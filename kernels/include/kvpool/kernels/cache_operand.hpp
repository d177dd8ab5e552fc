// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/page_table_view.hpp>

#include <cstdint>
#include <type_traits>

namespace kvpool::kernels {

/// Format of one element of a tensor. Values are fixed.
enum class ElementType : std::int32_t {
  kFp32 = 0,     ///< IEEE binary32
  kBf16 = 1,     ///< bfloat16
  kFp16 = 2,     ///< IEEE binary16
  kFp8E4m3 = 3,  ///< OCP FP8 E4M3 (no infinities)
};

/// K rows, V rows and outputs have a multiple of this many elements.
inline constexpr std::int32_t kDimStep = 8;
/// Longest row: the latent (512) and rope part (64) of MLA.
inline constexpr std::int32_t kMaxDim = 576;
/// Alignment of addresses and strides of caches, sources and outputs, in bytes.
inline constexpr std::int64_t kAlignment = 16;

/// Bytes of one element.
[[nodiscard]] KVPOOL_HOST_DEVICE constexpr std::int64_t element_bytes(ElementType type) noexcept {
  return type == ElementType::kFp32 ? 4 : type == ElementType::kFp8E4m3 ? 1 : 2;
}

/// K or V of one layer inside a pool. The row of (table entry e, head h, slot s) starts at
/// `base + e * entry_stride_bytes + h * head_stride_bytes + s * slot_stride_bytes` and has `dim`
/// contiguous elements. HND, NHD, K and V interleaved or apart, page-major and layer-major pools
/// differ only in the strides.
struct CacheOperand {
  /// Row of entry 0, head 0, slot 0, aligned to 16 bytes.
  void* base = nullptr;
  /// Bytes from one table entry to the next: the pool's `unit_bytes` where pages are outermost, the
  /// layer's bytes of one page where layers are.
  std::int64_t entry_stride_bytes = 0;
  /// Bytes from one KV head to the next.
  std::int64_t head_stride_bytes = 0;
  /// Bytes from one token slot of a page to the next.
  std::int64_t slot_stride_bytes = 0;
  /// Elements of one row.
  std::int32_t dim = 0;
  /// Format of the elements.
  ElementType type = ElementType::kBf16;
};

static_assert(std::is_trivially_copyable_v<CacheOperand>);
static_assert(std::is_standard_layout_v<CacheOperand>);
static_assert(sizeof(CacheOperand) == 40);

/// Bytes from `cache.base` to the row of an entry, a head and a slot.
[[nodiscard]] KVPOOL_HOST_DEVICE constexpr std::int64_t row_offset(const CacheOperand& cache,
                                                                   std::int64_t entry,
                                                                   std::int64_t head,
                                                                   std::int64_t slot) noexcept {
  return entry * cache.entry_stride_bytes + head * cache.head_stride_bytes +
         slot * cache.slot_stride_bytes;
}

}  // namespace kvpool::kernels
