// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/solve/length_mix.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

namespace kvpool {
namespace {

using Shares = std::vector<LengthShare>;
using Counts = std::vector<LengthCount>;

LengthMix percentiles(const std::string& text) {
  return parse_percentiles(text, Tokens{131'072}).value();
}

LengthCount count(std::int64_t length, std::int64_t sequences) {
  return {.length = Tokens{length}, .sequences = Sequences{sequences}};
}

}  // namespace

TEST_CASE("percentiles give every sequence the length of the next percentile") {
  CHECK(percentiles("p50=4k,p90=32000,max=128K").shares ==
        Shares{{Tokens{4'000}, 500'000}, {Tokens{32'000}, 400'000}, {Tokens{131'072}, 100'000}});
  // What lies above the last one has the longest length that is planned for.
  CHECK(percentiles("p50=100, p99.9=200").shares ==
        Shares{{Tokens{100}, 500'000}, {Tokens{200}, 499'000}, {Tokens{131'072}, 1'000}});
  CHECK(percentiles("p100=7").shares == Shares{{Tokens{7}, 1'000'000}});
  // Equal lengths are one class.
  CHECK(percentiles("50=9,90=9,max=10").shares ==
        Shares{{Tokens{9}, 900'000}, {Tokens{10}, 100'000}});
}

TEST_CASE("percentiles that mean nothing are refused with the text") {
  for (const char* text :
       {"", "p50", "p50=", "p0=4", "p101=4", "p50=0", "p50=4k,p40=8k", "p50=8k,p90=4k",
        "p50=4k,p50=5k", "px=4", "p99.99999=4", "max=200000", "p50=4k;p90=8k", "p50=-1", "=5"}) {
    INFO(text);
    const auto mix = parse_percentiles(text, Tokens{131'072});
    REQUIRE_FALSE(mix.has_value());
    CHECK(mix.error().code == ErrorCode::kInvalidArgument);
    CHECK(mix.error().key == "lengths");
  }
}

TEST_CASE("a sample is sorted and counted") {
  const std::vector<Tokens> lengths{Tokens{30}, Tokens{10}, Tokens{30}, Tokens{20}};
  const LengthMix mix = mix_of_sample(lengths).value();
  CHECK(mix.shares == Shares{{Tokens{10}, 1}, {Tokens{20}, 1}, {Tokens{30}, 2}});
  CHECK(mix.longest() == Tokens{30});
  CHECK(mix.total_weight() == 4);
  CHECK_FALSE(mix_of_sample({}).has_value());
  CHECK_FALSE(mix_of_sample(std::vector{Tokens{0}}).has_value());
  CHECK_FALSE(mix_of_sample(std::vector{Tokens{(std::int64_t{1} << 40) + 1}}).has_value());
}

TEST_CASE("as many sequences as the sample has are the sample") {
  const std::vector<Tokens> lengths{Tokens{30}, Tokens{10}, Tokens{30}, Tokens{20}};
  const LengthMix mix = mix_of_sample(lengths).value();
  CHECK(sequences_of(mix, Sequences{4}) == Counts{count(10, 1), count(20, 1), count(30, 2)});
  // One sequence has the longest length: nothing is planned too small.
  CHECK(sequences_of(mix, Sequences{1}) == Counts{count(30, 1)});
  CHECK(sequences_of(mix, Sequences{2}) == Counts{count(20, 1), count(30, 1)});
  CHECK(sequences_of(mix, Sequences{0}).empty());
}

TEST_CASE("one sequence more never makes the load smaller") {
  const LengthMix mix = percentiles("p50=64,p90=1000,p99=5000");
  Counts before;
  for (std::int64_t n = 1; n < 400; ++n) {
    const Counts now = sequences_of(mix, Sequences{n});
    std::int64_t sum = 0;
    for (const LengthCount& c : now) {
      sum += c.sequences.count();
    }
    CHECK(sum == n);
    // At least as many sequences of at least every length.
    for (const LengthShare& share : mix.shares) {
      const auto at_least = [&](const Counts& counts) {
        std::int64_t many = 0;
        for (const LengthCount& c : counts) {
          many += c.length >= share.length ? c.sequences.count() : 0;
        }
        return many;
      };
      CHECK(at_least(now) >= at_least(before));
    }
    before = now;
  }
}

TEST_CASE("the even mix reaches the longest length and fills pages unevenly") {
  for (const std::int64_t longest : {1, 2, 100, 4'096, 131'072, 1'000'003}) {
    const LengthMix mix = even_mix(Tokens{longest});
    CHECK(mix.longest() == Tokens{longest});
    CHECK(mix.shares.size() <= 256);
    std::int64_t whole_pages = 0;
    Tokens before{0};
    for (const LengthShare& share : mix.shares) {
      CHECK(share.length > before);
      before = share.length;
      whole_pages += share.length.count() % 64 == 0 ? 1 : 0;
    }
    CHECK(whole_pages <= 16);
  }
}

TEST_CASE("a plan without pools holds no mix") {
  const LengthCount one = count(1, 1);
  CHECK(pool_that_runs_out(Plan{}, std::span{&one, 1}).has_value());
}

}  // namespace kvpool
