// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole plans, byte for byte as they were reviewed. `golden_update` writes them anew.
#include "golden_plans.hpp"

#include <kvpool/io/plan_document.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <locale>
#include <set>
#include <sstream>
#include <string>

namespace kvpool {
namespace {

/// The first line in which two texts differ, or empty.
std::string first_difference(const std::string& planned, const std::string& reviewed) {
  std::istringstream a{planned};
  std::istringstream b{reviewed};
  std::string x;
  std::string y;
  for (int line = 1;; ++line) {
    const bool more_a = static_cast<bool>(std::getline(a, x));
    const bool more_b = static_cast<bool>(std::getline(b, y));
    if (!more_a && !more_b) {
      return planned == reviewed ? "" : "the ends differ";
    }
    if (more_a != more_b || x != y) {
      return "line " + std::to_string(line) + ": planned '" + (more_a ? x : "nothing") +
             "', reviewed '" + (more_b ? y : "nothing") + "'";
    }
  }
}

void compare_all() {
  for (const golden::GoldenPlan& plan : golden::make_plans()) {
    INFO(plan.name << ", to be rewritten by golden_update if it is meant");
    CHECK(first_difference(plan.json, golden::read_file(golden::path_of(plan.name))) == "");
  }
}

/// Digits in groups and a decimal comma, as in many languages.
struct GroupedDigits : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

}  // namespace

TEST_CASE("plans are what was reviewed") { compare_all(); }

TEST_CASE("plans are the same in another locale and time zone") {
  const std::locale before = std::locale::global(std::locale{std::locale{}, new GroupedDigits});
  std::ostringstream probe;
  probe << 1'000'000;
  CHECK(probe.str() == "1.000.000");
  setenv("TZ", "Pacific/Chatham", 1);
  setenv("LC_ALL", "de_DE.UTF-8", 1);
  compare_all();
  std::locale::global(before);
  unsetenv("TZ");
  unsetenv("LC_ALL");
}

TEST_CASE("every reviewed plan is one that is made") {
  std::set<std::string> made;
  for (const golden::GoldenPlan& plan : golden::make_plans()) {
    made.insert(plan.name + ".json");
  }
  std::set<std::string> files;
  const auto folder = std::filesystem::path{golden::path_of("x")}.parent_path();
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    files.insert(entry.path().filename().string());
  }
  CHECK(made == files);
  CHECK(made.size() == 10);
}

TEST_CASE("reviewed plans are read back, and give the same text") {
  for (const golden::GoldenPlan& plan : golden::make_plans()) {
    INFO(plan.name);
    const auto read = io::read_plan(golden::path_of(plan.name));
    REQUIRE(read.has_value());
    CHECK(first_difference(io::plan_to_json(*read), plan.json) == "");
  }
}

}  // namespace kvpool
