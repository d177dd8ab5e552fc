// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/plan/pool_plan.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace kvpool {

/// Kernel rows that take part in the page decision of a drafter's pool and would run.
[[nodiscard]] std::vector<std::string> running_draft_rows(const Plan& plan);

/// Rows of `before` that are not in `now`.
[[nodiscard]] std::vector<std::string> rows_lost(const std::vector<std::string>& before,
                                                 const std::vector<std::string>& now);

/// Kernels that a page size loses, as the plan's decisions say.
[[nodiscard]] std::size_t lost_kernels(const Plan& plan);

}  // namespace kvpool
