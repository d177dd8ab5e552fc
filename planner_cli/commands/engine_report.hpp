// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/plan/pool_plan.hpp>

#include "commands/engine_questions.hpp"
#include "output/report.hpp"

#include <optional>
#include <span>
#include <string>

namespace kvpool::cli {

/// Everything about one engine: budget, figures, groups, accounts, rules.
void report_engine(const EngineAnswer& answer, Report& report);

/// One deployment through kvpool and all engines, a row each.
void report_comparison(const Plan& plan, std::span<const EngineAnswer> answers, Report& report);

/// The `kvpool.engines/1` document. @param plan kvpool's own plan, when it is part of the question
[[nodiscard]] std::string engines_document(const Plan* plan, std::span<const EngineAnswer> answers);

}  // namespace kvpool::cli
