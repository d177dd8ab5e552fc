// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/engine/engine_figure.hpp>

#include "support/catch.hpp"

#include <string>

namespace kvpool {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

bool prints(const EngineFigure& figure, const std::string& printed,
            FigureRounding rounding = FigureRounding::kNearest) {
  return agrees(figure, {figure.key, printed}, rounding);
}

EngineFigure size(FigureKey key, std::int64_t bytes) { return {key, Bytes{bytes}}; }

EngineFigure range(std::int64_t low, std::int64_t high, bool holds_low = true,
                   std::int64_t ppm = 1'000'000) {
  return {FigureKey::kBudgetGib, PrintedRange{low, high, ppm, holds_low}};
}

}  // namespace

TEST_CASE("every figure has a name and a unit", "[engine]") {
  CHECK(all_figures().size() == 39);
  for (const FigureKey key : all_figures()) {
    INFO(to_string(key));
    CHECK(parse_figure_key(to_string(key)) == key);
  }
  CHECK(unit_of(FigureKey::kKvTokens) == FigureUnit::kCount);
  CHECK(unit_of(FigureKey::kPoolBytes) == FigureUnit::kCount);
  CHECK(unit_of(FigureKey::kMaxConcurrency) == FigureUnit::kReal);
  CHECK(unit_of(FigureKey::kSpecStateConvGib) == FigureUnit::kGib);
  CHECK(unit_of(FigureKey::kRecurrentRMib) == FigureUnit::kMib);
  CHECK_FALSE(parse_figure_key("tokens").has_value());
}

TEST_CASE("sizes are rounded to the decimals that were printed, halves to even", "[engine]") {
  const std::int64_t half = 5'898'240;  // 5.625 MiB
  CHECK(prints(size(FigureKey::kKMib, half), "5.62"));
  CHECK_FALSE(prints(size(FigureKey::kKMib, half), "5.63"));
  CHECK(prints(size(FigureKey::kKMib, half), "5.625"));
  CHECK(prints(size(FigureKey::kKMib, half), "6"));
  CHECK(prints(size(FigureKey::kKMib, 3 * half), "16.88"));
  CHECK(prints(size(FigureKey::kKMib, 45 * kMiB / 2), "22.50"));
  CHECK_FALSE(prints(size(FigureKey::kKMib, 45 * kMiB / 2), "22.49"));
  CHECK(prints(size(FigureKey::kPoolGib, 3 * kGiB / 2), "1.50"));
  CHECK(prints({FigureKey::kMaxConcurrency, 2.376}, "2.38"));
  CHECK(prints({FigureKey::kNumBlocks, std::int64_t{426}}, "426"));
  CHECK_FALSE(prints({FigureKey::kNumBlocks, std::int64_t{426}}, "427"));
}

TEST_CASE("an engine that cuts decimals off prints less", "[engine]") {
  CHECK(prints({FigureKey::kMaxConcurrency, 2.379}, "2.37", FigureRounding::kFloor));
  CHECK_FALSE(prints({FigureKey::kMaxConcurrency, 2.379}, "2.38", FigureRounding::kFloor));
  CHECK(prints({FigureKey::kMaxConcurrency, 2.999}, "2", FigureRounding::kFloor));
  CHECK(prints(size(FigureKey::kKMib, 5'898'240), "5.62", FigureRounding::kFloor));
}

TEST_CASE("a printed budget agrees if some value that prints so is in the range", "[engine]") {
  // 10 GiB to less than 10.004 GiB.
  const EngineFigure budget = range(10 * kGiB, 10 * kGiB + kGiB / 250);
  CHECK(prints(budget, "10.00"));
  CHECK(prints(budget, "10.0"));
  CHECK_FALSE(prints(budget, "9.99"));
  CHECK_FALSE(prints(budget, "10.01"));
  // 10.006 GiB and more prints as 10.01; 9.996 as 10.00.
  CHECK(prints(range(10 * kGiB, 10 * kGiB + kGiB / 160), "10.01"));
  CHECK_FALSE(prints(range(10 * kGiB + kGiB / 160, 10 * kGiB + kGiB / 125), "10.00"));
}

TEST_CASE("the ends of a range count on one side only", "[engine]") {
  // The half between 10.5 and 11.5, where 11 and 10 meet: 10.5 prints as 10, the even digit.
  const std::int64_t half = 21 * kGiB / 2;
  CHECK(prints(range(half, half + 1), "10"));
  CHECK(prints(range(half, half + 1), "11"));
  CHECK_FALSE(prints(range(half + 1, half + 2), "10"));
  CHECK_FALSE(prints(range(half - 1, half), "11"));
  // With the upper end in: (low, high].
  CHECK(prints(range(half - 1, half, false), "10"));
  CHECK_FALSE(prints(range(half - 1, half, false), "11"));  // the half goes to the even digit
  CHECK_FALSE(prints(range(half, half + 1, false), "10"));
  CHECK(prints(range(half, half + 1, false), "11"));
  // Decimals cut off: 10.99... prints as 10, 11 does not.
  CHECK(prints(range(11 * kGiB - 1, 11 * kGiB), "10", FigureRounding::kFloor));
  CHECK_FALSE(prints(range(11 * kGiB, 11 * kGiB + 1), "10", FigureRounding::kFloor));
}

TEST_CASE("a range of free memory is divided by the fraction", "[engine]") {
  // 0.9 of what is free: a pool of 9 GiB comes from 10 GiB, and a block less from a little less.
  const EngineFigure free{FigureKey::kAvailableGib,
                          PrintedRange{9 * kGiB - kMiB, 9 * kGiB, 900'000, false}};
  CHECK(prints(free, "10.00"));
  CHECK(prints(free, "10.000"));
  CHECK(prints(free, "9.999"));
  CHECK_FALSE(prints(free, "9.00"));
  CHECK_FALSE(prints(free, "10.01"));
}

TEST_CASE("printed numbers are digits with a dot at most", "[engine]") {
  for (const char* good : {"0", "426", "2.38", "10.000", "16777216.5"}) {
    CHECK(is_printed_number(good));
  }
  for (const char* bad : {"", ".", "-1", "1.", ".5", "1e3", "1,000", "2.3.4", " 1", "NaN",
                          "1234567890123456789", "1.1234567890"}) {
    INFO(bad);
    CHECK_FALSE(is_printed_number(bad));
  }
}

}  // namespace kvpool
