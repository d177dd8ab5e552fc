// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/page_size_rule.hpp>

#include "support/catch.hpp"

namespace kvpool {
namespace {

std::vector<std::int64_t> accepted_up_to(const PageSizeRule& rule, std::int64_t last) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = -2; size <= last; ++size) {
    if (rule.accepts(Tokens{size})) {
      sizes.push_back(size);
    }
  }
  return sizes;
}

TEST_CASE("a list of sizes accepts these sizes only", "[capability]") {
  const PageSizeRule rule{PageSizeRule::OneOf{{16, 32, 64}}};
  CHECK(accepted_up_to(rule, 300) == std::vector<std::int64_t>{16, 32, 64});
  CHECK(rule.reads_pool());
  CHECK(rule.text() == "{16, 32, 64}");
}

TEST_CASE("divisors of 128 leave out 1", "[capability]") {
  const PageSizeRule rule{PageSizeRule::DivisorsOf{128}};
  CHECK(accepted_up_to(rule, 300) == std::vector<std::int64_t>{2, 4, 8, 16, 32, 64, 128});
  CHECK(rule.text() == "divisors of 128 but 1");
}

TEST_CASE("multiples stop at their end, if they have one", "[capability]") {
  const PageSizeRule bounded{PageSizeRule::MultiplesOf{16, 64}};
  CHECK(accepted_up_to(bounded, 300) == std::vector<std::int64_t>{16, 32, 48, 64});
  CHECK(bounded.text() == "multiples of 16 up to 64");
  const PageSizeRule open{PageSizeRule::MultiplesOf{128}};
  CHECK(open.accepts(Tokens{1'280'000}));
  CHECK_FALSE(open.accepts(Tokens{64}));
  CHECK(open.text() == "multiples of 128");
}

TEST_CASE("any size means any from 1 on", "[capability]") {
  const PageSizeRule rule;
  CHECK(rule.accepts(Tokens{1}));
  CHECK(rule.accepts(Tokens{48}));
  CHECK_FALSE(rule.accepts(Tokens{0}));
  CHECK_FALSE(rule.accepts(Tokens{-64}));
  CHECK(rule.reads_pool());
  CHECK(rule.text() == "any");
}

TEST_CASE("a kernel that does not read the pool has no condition", "[capability]") {
  const PageSizeRule rule{PageSizeRule::NotRead{}};
  CHECK(rule.accepts(Tokens{7}));
  CHECK_FALSE(rule.reads_pool());
  CHECK(rule.text() == "does not read the pool");
}

TEST_CASE("a rule without sense accepts nothing", "[capability]") {
  CHECK(accepted_up_to(PageSizeRule{PageSizeRule::DivisorsOf{0}}, 100).empty());
  CHECK(accepted_up_to(PageSizeRule{PageSizeRule::MultiplesOf{0}}, 100).empty());
  CHECK(accepted_up_to(PageSizeRule{PageSizeRule::OneOf{}}, 100).empty());
}

TEST_CASE("rules compare by what they say", "[capability]") {
  CHECK(PageSizeRule{PageSizeRule::DivisorsOf{128}} == PageSizeRule{PageSizeRule::DivisorsOf{128}});
  CHECK_FALSE(PageSizeRule{PageSizeRule::DivisorsOf{128}} == PageSizeRule{});
}

}  // namespace
}  // namespace kvpool
