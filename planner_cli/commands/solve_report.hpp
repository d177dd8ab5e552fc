// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/solve/answer.hpp>

#include "output/json_writer.hpp"
#include "output/report.hpp"

#include <cstdint>
#include <string>

namespace kvpool::cli {

/// A value of an answer for people: `82,176 tokens`, `0.815`, `8 GPUs`.
[[nodiscard]] std::string value_text(std::int64_t value, const std::string& unit);

/// One answer: the value, what stops the next step, what would help, and what was compared.
void report_answer(const Answer& answer, Report& report);

/// One answer as an object of `answers[]`.
void write_answer(const Answer& answer, JsonWriter& json);

}  // namespace kvpool::cli
