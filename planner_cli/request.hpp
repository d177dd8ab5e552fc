// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/plan/plan_request.hpp>

#include "options.hpp"

namespace kvpool::cli {

/// A deployment that was read and understood.
struct Deployment {
  /// What the planner is asked.
  PlanRequest request;
  /// The known kernels and those of the user.
  CapabilityRegistry registry;
};

/// The known kernels, and those of `--kernels` files.
[[nodiscard]] CapabilityRegistry read_registry(const Options& options);

/// Understands every option and reads the files that they name. Throws a `Failure`: usage for a
/// value on the command line, input for what stands in files.
[[nodiscard]] Deployment read_deployment(const Options& options);

/// A share such as `0.92` in millionths, exactly; -1 for what is not above 0 and at most 1 with at
/// most six decimals.
[[nodiscard]] std::int64_t parse_share_ppm(std::string_view text) noexcept;

}  // namespace kvpool::cli
