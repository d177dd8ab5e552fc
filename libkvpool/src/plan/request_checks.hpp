// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/plan/plan_request.hpp>

namespace kvpool {

/// Whether every number of a request lies in its domain, so that nothing later overflows or divides
/// by zero. @return `kInvalidArgument` with the option's name as key
[[nodiscard]] Result<void> check_request(const PlanRequest& request);

}  // namespace kvpool
