// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// A whole step of a drafter: its tables are brought up to date, a plan is made or tables of decode
// rows, then five layers append and attend.
#pragma once

#include "attention_case.hpp"
#include "measure.hpp"

namespace kvpool::bench {

/// Measures the steps of one shape and writes a line for each form. @return false if outputs were
/// wrong
bool run_step(const AttentionCase& c, Pool& pool, Csv& csv);

}  // namespace kvpool::bench
