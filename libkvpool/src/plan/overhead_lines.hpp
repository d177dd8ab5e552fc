// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/plan/memory_budget.hpp>

#include <vector>

namespace kvpool {

/// Ledger lines of what a rank needs besides weights and cache: activations, context, graphs,
/// communication, and what an engine adds. `request` is checked: its engine is known or empty.
/// @param gpu_memory the device's total, which some engines' rules look at
[[nodiscard]] std::vector<LedgerLine> overhead_lines(const OverheadRequest& request,
                                                     const Parallelism& parallelism, Tokens step,
                                                     Bytes gpu_memory);

/// Ledger lines of the other processes on the GPU.
[[nodiscard]] std::vector<LedgerLine> co_located_lines(const OverheadRequest& request);

/// True for a version such as `0.21`, `0.21.1rc2` or an empty one.
[[nodiscard]] bool is_version(std::string_view text) noexcept;

}  // namespace kvpool
