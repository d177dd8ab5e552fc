// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Append and page copy, against copies of as many bytes.
#pragma once

#include "attention_case.hpp"
#include "measure.hpp"

namespace kvpool::bench {

/// TB/s of a copy within the device, bytes read and written counted.
double copy_rate();

void run_append(Pool& pool, Csv& csv);
void run_page_copy(Pool& pool, Csv& csv);

}  // namespace kvpool::bench
