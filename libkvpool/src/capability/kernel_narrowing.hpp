// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>

#include "capability/page_size_sets.hpp"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace kvpool {

/// Id of decisions and refusals about which rows are asked.
inline constexpr std::string_view kKernelSetId = "kernel_set";
/// Id of a refusal of an unknown back-end.
inline constexpr std::string_view kBackendId = "drafter_backend";

/// The rows that a question asks, and how it came to them.
struct NarrowedRows {
  /// Rows to ask.
  RowList rows;
  /// One per narrowing.
  std::vector<Decision> decisions;
  /// Set when there is nothing to ask: a back-end or bundled kernel that does not exist.
  std::optional<Refusal> refusal;
};

/// Name of the pool that the user's pages are in: `target` or `draft`.
[[nodiscard]] std::string_view pool_of(PoolUser user) noexcept;

/// Rows of the question's kernel set and back-end that serve one of `users`, shapes aside.
[[nodiscard]] NarrowedRows rows_to_ask(const CapabilityRegistry& registry,
                                       const PageSizeQuestion& question,
                                       std::span<const PoolUser> users);

/// Narrows `asked` to the rows that run the query, as a decision.
void keep_rows_that_run(NarrowedRows& asked, const KernelQuery& query);

}  // namespace kvpool
