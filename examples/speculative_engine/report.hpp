// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "scenario.hpp"

#include <string>

namespace example {

/// A run for people: tokens per step, acceptance, pages, times, and what the plan lost.
[[nodiscard]] std::string report(const Outcome& outcome);

/// The decisions that lost something, or chose in place of something else: an id, what was chosen,
/// why, and what it costs, one a line. Part of the report.
[[nodiscard]] std::string report_decisions(const std::vector<kvpool::Decision>& decisions);

}  // namespace example
