// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/capability_registry.hpp>
#include <kvpool/plan/pool_plan.hpp>
#include <kvpool/solve/advice.hpp>

#include "exit_codes.hpp"
#include "options.hpp"
#include "output/report.hpp"

#include <vector>

namespace kvpool::cli {

/// What a plan ends the program with: 0 fits, 1 bytes are missing, 3 refused for another reason.
[[nodiscard]] ExitCode exit_code_of(const Plan& plan) noexcept;

/// Lines that say what is planned: model, drafter, deployment.
void report_deployment(const Plan& plan, const Options& options, Report& report);
/// First lines: does it fit, by how much, and the deployment.
void report_headline(const Plan& plan, const Options& options, Report& report);
/// From the device's total down to the last byte of loss.
void report_ledger(const Plan& plan, Report& report);
/// The pools of the smallest rank, their tensors, and the other stages.
void report_pools(const Plan& plan, Report& report);
/// What fits, the cost of a sequence, and requests of several lengths.
void report_capacity(const Plan& plan, Report& report);
/// Choices with reason and cost; kernels that are lost stand out.
void report_decisions(const Plan& plan, Report& report);
/// Why there is no plan, and the least that works.
void report_refusals(const Plan& plan, Report& report);
/// What costs memory or speed and could be otherwise; nothing when there is none.
void report_advice(const std::vector<Advice>& advice, Report& report);
/// Single changes of the command line with which a plan that lacks bytes would fit.
void report_ways_out(const Plan& plan, const CapabilityRegistry& registry, Report& report);

}  // namespace kvpool::cli
