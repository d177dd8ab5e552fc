// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/kernel_capability.hpp>
#include <kvpool/plan/pool_plan.hpp>

#include "commands/kernel_uses.hpp"

#include <span>
#include <string>
#include <vector>

namespace kvpool::cli {

/// True if `user` is among those whom `row` serves.
[[nodiscard]] bool serves_user(const KernelCapability& row, PoolUser user) noexcept;

/// What a row says about the page of a pool: `kept`, `refused`, `not read`, or `-` without a page.
[[nodiscard]] std::string page_verdict(const KernelCapability& row, Tokens page);

/// The `kvpool.kernels/1` document.
/// @param resolution what was settled for a model, or null when only rows were asked for
[[nodiscard]] std::string kernels_document(std::span<const KernelCapability> rows,
                                           const Resolution* resolution,
                                           const std::vector<KernelUse>& uses);

}  // namespace kvpool::cli
