// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/plan/pool_plan.hpp>
#include <kvpool/solve/advice.hpp>

#include "commands/engine_questions.hpp"
#include "output/report.hpp"

#include <span>
#include <string>
#include <vector>

namespace kvpool::cli {

/// kvpool's own plan beside the engines' predictions, with what there is to say about it.
struct ComparedPlan {
  /// The plan.
  Plan plan;
  /// Advice about it.
  std::vector<Advice> advice;
};

/// Everything about one engine: budget, figures, groups, accounts, rules, advice.
void report_engine(const EngineAnswer& answer, Report& report);

/// One deployment through kvpool and all engines, a row each, and all their advice.
void report_comparison(const ComparedPlan& own, std::span<const EngineAnswer> answers,
                       Report& report);

/// The `kvpool.engines/1` document. @param own kvpool's own plan, when it is part of the question
[[nodiscard]] std::string engines_document(const ComparedPlan* own,
                                           std::span<const EngineAnswer> answers);

}  // namespace kvpool::cli
