// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/decision.hpp>
#include <kvpool/plan/pool_plan.hpp>

#include "output/report.hpp"

#include <span>
#include <string>
#include <vector>

namespace kvpool::cli {

/// Lower-case name with spaces: `draft_page_size` -> `draft page size`.
[[nodiscard]] std::string words_of(std::string_view name);

/// `a + b x L` in bytes, and from which length on.
[[nodiscard]] std::string cost_text(const AffineCost& cost);

/// `+306 us per step (conditions)`, or what else is known of a cost.
[[nodiscard]] std::string cost_text(const CostOfChoice& cost);

/// Name of a group of a pool: the pool's, and the group's where the pool has several.
[[nodiscard]] std::string group_label(const PoolDescriptor& pool, const PooledGroup& group);

/// Formats of a group's planes, in order of appearance: `bf16`, `bf16 + fp32`.
[[nodiscard]] std::string formats_text(const PageGeometry& page);

/// Length that a rank's part of a pool sees: what the drafter follows, dealt out over the ranks of
/// decode-context parallelism.
[[nodiscard]] Tokens length_in_pool(const Plan& plan, const PoolDescriptor& pool, Tokens length);

/// Pages of one sequence in a group of a pool, snapshots of its state included.
[[nodiscard]] Pages pages_in_pool(const Plan& plan, const PoolDescriptor& pool,
                                  const PooledGroup& group, Tokens length);

/// Bytes of one sequence in one group of a pool, from its pages.
[[nodiscard]] Bytes sequence_bytes(const Plan& plan, const PoolDescriptor& pool,
                                   const PooledGroup& group, Tokens length);

/// Cost of one sequence in a group of a pool, snapshots of its state included.
[[nodiscard]] AffineCost cost_in_pool(const Plan& plan, const PoolDescriptor& pool,
                                      const PooledGroup& group);

/// Indices of integers as ranges: `3, 7, 11` or `0-4`.
[[nodiscard]] std::string ranges_text(const std::vector<std::int64_t>& numbers);

/// The rows that were asked, as a table; nothing when there are none.
void report_verdicts(std::span<const Verdict> verdicts, Report& report, std::size_t indent);

}  // namespace kvpool::cli
