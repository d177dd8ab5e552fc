// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/plan/pool_plan.hpp>

#include "output/report.hpp"

#include <string_view>

// Every line of these sections of the form `label: expression = number unit` is arithmetic: its
// numbers come from the library, and a test calculates it again. Operators are x, +, -, /, ceil(),
// floor() and min(); words are units.

namespace kvpool::cli {

/// Config keys, the figures they give, and by which rule.
void explain_config(const Plan& plan, Report& report);
/// Per pool and group: rows, planes, pages, slabs.
void explain_pages(const Plan& plan, Report& report);
/// How the page sizes came about, row by row.
void explain_page_decisions(const Plan& plan, Report& report);
/// From a pool's share to its pages, and from pages to bytes.
void explain_pool_sizes(const Plan& plan, Report& report);
/// Pages and bytes of one sequence of the longest length.
void explain_sequence(const Plan& plan, Report& report);
/// Weights of one rank from the headers of a checkpoint's files. @pre `model.weights` is there
/// @param spread how this model is divided, which an Eagle3 drafter is not over stages
void explain_stored_weights(const Plan& plan, const ModelConfig& model, std::string_view line_name,
                            const Parallelism& spread, Report& report);
/// From the device's total to the KV budget, and what becomes of it.
void explain_ledger(const Plan& plan, Report& report);

}  // namespace kvpool::cli
