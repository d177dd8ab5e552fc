// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// For tests that use Catch2, version 2 or 3. Unlike every other public header this one includes the
// headers of a test framework: yours, whichever of the two versions is on the include path.
#pragma once

#include <kvpool/testing/agreement.hpp>

#include <string>

#if __has_include(<catch2/matchers/catch_matchers.hpp>)
#include <catch2/catch_test_macros.hpp>
#include <catch2/catch_tostring.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#else
#include <catch2/catch.hpp>
#endif

namespace kvpool::testing {

#if __has_include(<catch2/matchers/catch_matchers.hpp>)
/// The base class of matchers in the Catch2 that is there.
using AgreementMatcherBase = Catch::Matchers::MatcherBase<AgreementReport>;
#else
/// The base class of matchers in the Catch2 that is there.
using AgreementMatcherBase = Catch::MatcherBase<AgreementReport>;
#endif

/// `CHECK_THAT(check_allocations(plan, allocations), Agrees())`. A failure prints the report.
class Agrees final : public AgreementMatcherBase {
 public:
  /// True when every pool agrees.
  [[nodiscard]] bool match(const AgreementReport& report) const override { return report.agrees(); }
  /// What the failure message says behind the report.
  [[nodiscard]] std::string describe() const override { return "charges equal allocations"; }
};

}  // namespace kvpool::testing

namespace Catch {

/// How Catch2 prints a report.
template <>
struct StringMaker<kvpool::testing::AgreementReport> {
  /// `AgreementReport::text()`.
  static std::string convert(const kvpool::testing::AgreementReport& report) {
    return "\n" + report.text() + "\n";
  }
};

}  // namespace Catch
