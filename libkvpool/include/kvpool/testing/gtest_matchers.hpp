// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// For tests that use GoogleTest. Unlike every other public header this one includes the header of a
// test framework: yours. `kvpool::testing` is not GoogleTest's `::testing`: a test that says `using
// namespace kvpool` writes the latter with its leading colons.
#pragma once

#include <kvpool/testing/agreement.hpp>

#include <gtest/gtest.h>

#include <ostream>

namespace kvpool::testing {

/// `EXPECT_TRUE(agrees(check_allocations(plan, allocations)))`. A failure prints the report.
[[nodiscard]] inline ::testing::AssertionResult agrees(const AgreementReport& report) {
  return report.agrees() ? ::testing::AssertionSuccess() << report.text()
                         : ::testing::AssertionFailure() << report.text();
}

/// How GoogleTest prints a report.
inline void PrintTo(const AgreementReport& report,  // NOLINT: GoogleTest looks for this name
                    std::ostream* out) {
  *out << report.text();
}

}  // namespace kvpool::testing
