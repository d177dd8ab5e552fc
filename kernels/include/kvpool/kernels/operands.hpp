// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/ids.hpp>
#include <kvpool/core/kv_dtype.hpp>
#include <kvpool/core/result.hpp>
#include <kvpool/kernels/cache_operand.hpp>
#include <kvpool/pool/pool_set.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace kvpool::kernels {

/// K and V of one layer, as kernels take them.
struct CachePair {
  /// Keys, or MLA records.
  CacheOperand k{};
  /// Values. For MLA the same rows as `k`, of which the first `v.dim` elements are the value.
  CacheOperand v{};
  /// KV heads of one rank; 1 for MLA.
  std::int32_t kv_heads = 0;
  /// Query heads of one rank.
  std::int32_t query_heads = 0;
  /// Token slots of a page.
  std::int32_t tokens_per_block = 0;
  /// True if values are part of the keys, so that append writes keys only.
  bool v_aliases_k = false;
};

/// Element type of a pool's format, or nothing: formats with scales in the pool, packed formats and
/// records are not arrays of elements.
[[nodiscard]] std::optional<ElementType> element_type(KvDtype dtype) noexcept;

/// Operands of one layer's cache in an allocated pool, for every page order and row order.
/// @pre `pool` is one of `pools` and `group` one of its groups
/// @return `kNotFound` when the group has no K and V or MLA cache of this layer, `kUnsupported`
/// when
///   its format is not an array of elements
[[nodiscard]] Result<CachePair> cache_operands(const PoolSet& pools, PoolId pool, std::size_t group,
                                               LayerIndex layer);

}  // namespace kvpool::kernels
