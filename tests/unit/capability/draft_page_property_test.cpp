// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/capability_registry.hpp>

#include "support/catch.hpp"
#include "unit/capability/kernel_rows.hpp"

#include <algorithm>
#include <random>

namespace kvpool {
namespace {

/// A rule and, written down apart from the library, the sizes up to 300 that it accepts.
struct Sample {
  PageSizeRule rule;
  std::vector<bool> accepts = std::vector<bool>(301, false);
  bool reads = true;
};

constexpr std::int64_t kLast = 300;

Sample sample_rule(std::mt19937_64& random) {
  const auto number = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  Sample sample;
  switch (number(0, 4)) {
    case 0: {
      std::vector<std::int64_t> sizes;
      for (const std::int64_t size : {8, 16, 32, 48, 64, 96, 128, 256}) {
        if (number(0, 2) > 0) {
          sizes.push_back(size);
          sample.accepts[static_cast<std::size_t>(size)] = true;
        }
      }
      sample.rule = rows::one_of(sizes);
      break;
    }
    case 1: {
      const std::int64_t n = 32 * number(1, 8);
      sample.rule = PageSizeRule{PageSizeRule::DivisorsOf{n}};
      for (std::int64_t q = 1; q < n; ++q) {
        if (n % q == 0 && n / q <= kLast) {
          sample.accepts[static_cast<std::size_t>(n / q)] = true;
        }
      }
      break;
    }
    case 2: {
      const std::int64_t n = std::int64_t{1} << number(0, 6);
      const std::int64_t max = number(0, 1) == 0 ? 0 : n * number(1, 4);
      sample.rule = PageSizeRule{PageSizeRule::MultiplesOf{n, max}};
      for (std::int64_t size = n; size <= (max == 0 ? kLast : std::min(max, kLast)); size += n) {
        sample.accepts[static_cast<std::size_t>(size)] = true;
      }
      break;
    }
    case 3: std::fill(sample.accepts.begin() + 1, sample.accepts.end(), true); break;
    default:
      sample.rule = PageSizeRule{PageSizeRule::NotRead{}};
      sample.reads = false;
      break;
  }
  return sample;
}

TEST_CASE("a chosen draft page suits every required row, and is the target's if it can be",
          "[capability][property]") {
  constexpr std::uint64_t kSeed = 20260930;
  std::mt19937_64 random{kSeed};
  std::int64_t kept = 0;
  std::int64_t moved = 0;
  std::int64_t refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<KernelCapability> rows;
    std::vector<Sample> binding;
    const std::uint64_t count = 1 + random() % 4;
    for (std::uint64_t i = 0; i < count; ++i) {
      const Sample sample = sample_rule(random);
      rows.push_back(rows::draft_row("row_" + std::to_string(i), sample.rule));
      if (random() % 4 == 0) {
        rows.back().necessity = Necessity::kPreferred;
      } else if (sample.reads) {
        binding.push_back(sample);
      }
    }
    const auto suits = [&](std::int64_t size) {
      return std::ranges::all_of(binding, [&](const Sample& sample) {
        return sample.accepts[static_cast<std::size_t>(size)];
      });
    };
    const std::int64_t target = 8 * (1 + static_cast<std::int64_t>(random() % 32));
    const PageSizeChoice choice = decide_draft_page(Tokens{target}, rows);
    INFO("seed " << kSeed << ", round " << round << ", target " << target);
    if (suits(target)) {
      REQUIRE(choice.tokens_per_block == Tokens{target});
      ++kept;
    } else if (suits(32)) {
      REQUIRE(choice.tokens_per_block == Tokens{32});
      REQUIRE(choice.decision.instead_of == std::to_string(target));
      ++moved;
    } else {
      REQUIRE_FALSE(choice.tokens_per_block.has_value());
      REQUIRE(choice.refusal.has_value());
      for (const std::string& text : choice.refusal->accepted) {
        // Each listed number works; long lists are told by a rule instead.
        if (text.find_first_not_of("0123456789") == std::string::npos && std::stol(text) <= kLast) {
          REQUIRE(suits(std::stol(text)));
        }
      }
      const auto common = [&] {
        for (std::int64_t size = 1; size <= kLast; ++size) {
          if (suits(size)) {
            return true;
          }
        }
        return false;
      };
      REQUIRE((!common() || !choice.refusal->accepted.empty()));
      REQUIRE_FALSE(choice.refusal->least_that_works.empty());
      ++refused;
    }
  }
  // All three outcomes are met often.
  CHECK(kept > 500);
  CHECK(moved > 300);
  CHECK(refused > 300);
}

}  // namespace
}  // namespace kvpool
