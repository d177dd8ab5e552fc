// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// What is compiled, as one list: the CUDA dispatchers fold over it, and the capability rows are
// made from it, so that no row can promise what no kernel does.
#pragma once

#include <kvpool/kernels/cache_operand.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvpool::kernels {

/// One instantiation of the append kernel: source and cache of one format. It copies rows of any
/// length that is a multiple of `kDimStep` up to `kMaxDim`.
struct AppendInstance {
  ElementType type = ElementType::kBf16;
};

/// One instantiation of the simple attention kernel: queries, cache and outputs of one format, rows
/// of up to `max_dim` elements, K and V alike. The first that holds the longer row runs.
struct SimpleAttentionInstance {
  ElementType type = ElementType::kBf16;
  std::int32_t max_dim = 0;
};

/// One instantiation of packed attention: queries, cache and outputs of one format, K and V rows of
/// `dim` elements, tiles of 16 * `row_tiles` query rows. How its thread blocks are made was chosen
/// by measurement on an H200; see `packed::Traits`.
struct PackedInstance {
  ElementType type = ElementType::kBf16;
  std::int32_t dim = 0;
  std::int32_t row_tiles = 0;
  std::int32_t warps = 0;
  std::int32_t stream_warps = 0;
  std::int32_t steps = 0;
  std::int32_t stages = 0;
  /// Thread blocks on one multiprocessor.
  std::int32_t blocks = 0;
  /// Sequences * KV heads from which on it runs instead of one with a smaller number.
  std::int32_t least_items = 0;
};

/// `PackedInstance::least_items` of what runs only where it is asked for by its place in the list:
/// built with KVPOOL_KERNEL_CANDIDATES, to be measured.
inline constexpr std::int32_t kCandidate = 0x7FFF'FFFF;

inline constexpr std::array kAppendInstances = {
    AppendInstance{ElementType::kBf16},
    AppendInstance{ElementType::kFp16},
    AppendInstance{ElementType::kFp32},
};

inline constexpr std::array kSimpleAttentionInstances = {
    SimpleAttentionInstance{ElementType::kBf16, kMaxDim},
    SimpleAttentionInstance{ElementType::kFp16, kMaxDim},
    SimpleAttentionInstance{ElementType::kFp32, kMaxDim},
};

/// Few items need all of a multiprocessor's memory for one block's ring; with two blocks one
/// computes while the other begins or ends an item.
inline constexpr std::array kPackedInstances = {
    PackedInstance{ElementType::kBf16, 64, 1, 8, 1, 1, 6, 1, 0},
    PackedInstance{ElementType::kBf16, 64, 1, 4, 1, 2, 3, 2, 8},
    PackedInstance{ElementType::kBf16, 64, 2, 8, 2, 2, 6, 1, 0},
    PackedInstance{ElementType::kBf16, 64, 2, 8, 2, 2, 3, 2, 133},
    PackedInstance{ElementType::kBf16, 64, 3, 12, 3, 2, 6, 1, 0},
    PackedInstance{ElementType::kBf16, 64, 3, 4, 1, 2, 3, 2, 16},
    PackedInstance{ElementType::kBf16, 64, 4, 16, 4, 2, 5, 1, 0},
    PackedInstance{ElementType::kBf16, 64, 4, 8, 4, 2, 5, 2, 16},
    PackedInstance{ElementType::kBf16, 128, 1, 8, 1, 1, 3, 1, 0},
    PackedInstance{ElementType::kBf16, 128, 2, 8, 2, 1, 6, 1, 0},
    PackedInstance{ElementType::kBf16, 128, 3, 12, 3, 1, 6, 1, 0},
    PackedInstance{ElementType::kBf16, 128, 4, 8, 2, 1, 6, 1, 0},
    PackedInstance{ElementType::kFp16, 64, 1, 8, 1, 1, 6, 1, 0},
    PackedInstance{ElementType::kFp16, 64, 1, 4, 1, 2, 3, 2, 8},
    PackedInstance{ElementType::kFp16, 64, 2, 8, 2, 2, 6, 1, 0},
    PackedInstance{ElementType::kFp16, 64, 2, 8, 2, 2, 3, 2, 133},
    PackedInstance{ElementType::kFp16, 64, 3, 12, 3, 2, 6, 1, 0},
    PackedInstance{ElementType::kFp16, 64, 3, 4, 1, 2, 3, 2, 16},
    PackedInstance{ElementType::kFp16, 64, 4, 16, 4, 2, 5, 1, 0},
    PackedInstance{ElementType::kFp16, 64, 4, 8, 4, 2, 5, 2, 16},
    PackedInstance{ElementType::kFp16, 128, 1, 8, 1, 1, 3, 1, 0},
    PackedInstance{ElementType::kFp16, 128, 2, 8, 2, 1, 6, 1, 0},
    PackedInstance{ElementType::kFp16, 128, 3, 12, 3, 1, 6, 1, 0},
    PackedInstance{ElementType::kFp16, 128, 4, 8, 2, 1, 6, 1, 0},
#ifdef KVPOOL_KERNEL_CANDIDATES
    // docs/decisions/0022: what each is to show.
    PackedInstance{ElementType::kBf16, 64, 2, 8, 2, 1, 12, 1, kCandidate},
    PackedInstance{ElementType::kBf16, 64, 3, 12, 3, 1, 12, 1, kCandidate},
    PackedInstance{ElementType::kBf16, 64, 3, 6, 3, 2, 6, 2, kCandidate},
    PackedInstance{ElementType::kBf16, 64, 3, 9, 3, 2, 4, 2, kCandidate},
    PackedInstance{ElementType::kBf16, 128, 1, 4, 1, 1, 3, 2, kCandidate},
    PackedInstance{ElementType::kBf16, 128, 2, 8, 1, 1, 3, 1, kCandidate},
    PackedInstance{ElementType::kBf16, 128, 2, 8, 2, 2, 3, 1, kCandidate},
    PackedInstance{ElementType::kBf16, 128, 2, 16, 2, 1, 3, 1, kCandidate},
    PackedInstance{ElementType::kBf16, 128, 3, 12, 3, 2, 3, 1, kCandidate},
#endif
};

static_assert(kPackedInstances.size() <= 48, "a clean build stays within minutes");

/// True if packed attention is compiled for rows of `dim` elements of this format.
[[nodiscard]] constexpr bool packs(ElementType type, std::int32_t dim) noexcept {
  for (const PackedInstance& instance : kPackedInstances) {
    if (instance.type == type && instance.dim == dim) {
      return true;
    }
  }
  return false;
}

/// Largest tile of query rows, in 16 rows.
inline constexpr std::int32_t kMostRowTiles = 4;

/// The instance for `rows` query rows (query tokens * group) of one KV head, or null: the smallest
/// tile that holds them in as few tiles as can be, and of those the one for most items.
[[nodiscard]] constexpr const PackedInstance* packed_instance(ElementType type, std::int32_t dim,
                                                              std::int64_t rows,
                                                              std::int64_t items) noexcept {
  const std::int64_t sixteens = (rows + 15) / 16;
  const std::int64_t tiles = (sixteens + kMostRowTiles - 1) / kMostRowTiles;
  const std::int64_t each = tiles > 0 ? (sixteens + tiles - 1) / tiles : 1;
  const PackedInstance* found = nullptr;
  for (const PackedInstance& instance : kPackedInstances) {
    const bool fits = instance.type == type && instance.dim == dim && instance.row_tiles >= each &&
                      instance.least_items != kCandidate && instance.least_items <= items;
    const bool better =
        found == nullptr || instance.row_tiles < found->row_tiles ||
        (instance.row_tiles == found->row_tiles && instance.least_items > found->least_items);
    if (fits && better) {
      found = &instance;
    }
  }
  return found;
}

/// The instance at a place of the list, if it is for rows of `dim` elements, or null.
[[nodiscard]] constexpr const PackedInstance* packed_instance_at(std::int64_t place,
                                                                 std::int32_t dim) noexcept {
  const bool exists = place >= 0 && place < static_cast<std::int64_t>(kPackedInstances.size());
  const PackedInstance* const instance =
      exists ? kPackedInstances.data() + static_cast<std::ptrdiff_t>(place) : nullptr;
  return instance != nullptr && instance->dim == dim ? instance : nullptr;
}

/// True if an append kernel for this format is compiled.
[[nodiscard]] constexpr bool appends(ElementType type) noexcept {
  for (const AppendInstance& instance : kAppendInstances) {
    if (instance.type == type) {
      return true;
    }
  }
  return false;
}

/// True if an attention kernel for this format and these rows is compiled.
[[nodiscard]] constexpr bool attends(ElementType type, std::int32_t dim) noexcept {
  for (const SimpleAttentionInstance& instance : kSimpleAttentionInstances) {
    if (instance.type == type && dim <= instance.max_dim) {
      return true;
    }
  }
  return false;
}

}  // namespace kvpool::kernels
