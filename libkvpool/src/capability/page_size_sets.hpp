// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/kernel_capability.hpp>
#include <kvpool/core/units.hpp>

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvpool {

/// Rows of a registry, by pointer: narrowing copies no row.
using RowList = absl::InlinedVector<const KernelCapability*, 32>;
/// Rows to read.
using RowSpan = std::span<const KernelCapability* const>;

/// True if every row accepts the size. Rows that do not read the pool accept each.
[[nodiscard]] bool all_accept(RowSpan rows, Tokens size) noexcept;

/// The sizes that every row accepts, ascending: of 1 to 1024, and beyond that of the sizes that a
/// row names itself. Empty only if the rows have no common size.
[[nodiscard]] std::vector<std::int64_t> common_sizes(RowSpan rows);

/// Sizes for a refusal: one text per size, or the rule of a row when that says the same in short.
[[nodiscard]] std::vector<std::string> describe_sizes(const std::vector<std::int64_t>& sizes,
                                                      RowSpan rows);

/// The size nearest to `wanted`, the smaller of two equally near ones. @pre `sizes` is not empty
[[nodiscard]] std::int64_t nearest_size(const std::vector<std::int64_t>& sizes,
                                        std::int64_t wanted) noexcept;

/// The fewest rows that stand in the way of a common size.
struct RowsToDrop {
  /// The size that all other rows accept; of several, the nearest to the wanted one.
  std::int64_t size = 0;
  /// Names of the rows that refuse it, as text.
  std::string rows;
};

/// Which rows to leave out. @pre `rows` have no common size
[[nodiscard]] RowsToDrop rows_to_drop(RowSpan rows, std::int64_t wanted);

}  // namespace kvpool
