// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/plan/pool_plan.hpp>
#include <kvpool/solve/advice.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace kvpool::io {

/// Name and version of the document that `plan_to_json` writes; its `schema` key.
inline constexpr std::string_view kPlanSchema = "kvpool.plan/1";

/// A plan as one JSON document, described in `docs/plan_report.md`: sizes are whole numbers of
/// bytes, the order of keys is fixed, and the same plan gives the same text. `request` holds
/// everything that the plan depends on and what the registry settled, so that the document can be
/// read back without a registry. `ModelConfig::facts` are left out. Text that is not UTF-8 is
/// written with replacement characters.
[[nodiscard]] std::string plan_to_json(const Plan& plan);

/// As `plan_to_json(plan)`, with `advice` as the last key. A reader of plans ignores it: it is what
/// can be said about a plan, and no part of it.
[[nodiscard]] std::string plan_to_json(const Plan& plan, const std::vector<Advice>& advice);

/// An input error as a document of the same form: `fits` is false, everything else is empty, and
/// `error` says file, key, value and message.
[[nodiscard]] std::string error_to_json(const Error& error);

/// Reads a plan document back: takes request and resolution from it, plans again, and compares the
/// whole document with what comes out. The order of keys and white space do not matter.
/// @param file name used in errors
/// @return the plan, equal to the one that was written but for `ModelConfig::facts`, also when it
///   does not fit or was refused. `kInvalidArgument` with the key when the text is malformed, or
///   when a figure differs: then the file was edited, or written by a version that counts
///   differently. `kUnsupported` for another schema and for the document of an input error.
[[nodiscard]] Result<Plan> parse_plan(std::string_view json, const std::string& file);

/// As `parse_plan`, from a file. Files above 64 MiB are refused.
[[nodiscard]] Result<Plan> read_plan(const std::string& path);

/// Writes `plan_to_json(plan)` to a file, replacing what it held.
/// @return `kIo` when that fails
Result<void> write_plan(const Plan& plan, const std::string& path);

/// Content hash of `plan_to_json(plan)`: XXH3, 128 bits, 32 lower-case hexadecimal digits. Tells
/// whether two parties hold the same plan; no protection against forgery.
[[nodiscard]] std::string plan_hash(const Plan& plan);

}  // namespace kvpool::io
