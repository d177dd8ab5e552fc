// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/core/checked.hpp>

#include "support/catch.hpp"

#include <rapidcheck.h>

#include <cstdint>
#include <limits>
#include <optional>

namespace kvpool {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

TEST_CASE("a result that fits is exact, whatever its intermediates", "[core][checked]") {
  CHECK((CheckedInt{kMax} + kMax - kMax).to_int64() == kMax);
  CHECK(floor_div(CheckedInt{kMax} * kMax, kMax).to_int64() == kMax);
  // The budget split of a draft pool: B * S_d / (S_t + S_d) with B near 2^57.
  CHECK(floor_div(CheckedInt{144'115'188'075'855'872} * 20'480, CheckedInt{27'648} + 20'480)
            .to_int64() == 61'325'611'947'172'711);
  CHECK(ceil_div(CheckedInt{7}, 2).to_int64() == 4);
  CHECK(ceil_div(CheckedInt{8}, 2).to_int64() == 4);
  CHECK(floor_div(CheckedInt{7}, 2).to_int64() == 3);
  CHECK(min(CheckedInt{3}, -4).to_int64() == -4);
  CHECK(max(CheckedInt{3}, -4).to_int64() == 3);
}

TEST_CASE("a result beyond 64 bits is nothing", "[core][checked]") {
  CHECK((CheckedInt{kMax} + 1).to_int64() == std::nullopt);
  CHECK((CheckedInt{kMin} - 1).to_int64() == std::nullopt);
  CHECK((CheckedInt{kMax} * 2).to_int64() == std::nullopt);
  CHECK((CheckedInt{1'000'000'000'000'000'000} * 10).to_int64() == std::nullopt);
  CHECK((CheckedInt{kMax} + 1).saturated() == kMax);
  CHECK((CheckedInt{kMin} - 1).saturated() == kMin);
}

TEST_CASE("a failure beyond 128 bits stays a failure", "[core][checked]") {
  const CheckedInt wide = CheckedInt{kMax} * kMax;
  // 2^128, whose lower 128 bits are 0: only the memory of the failure tells it from a number.
  const CheckedInt failed = CheckedInt{std::int64_t{1} << 62} * (std::int64_t{1} << 62) * 16;
  CHECK((wide * 2 - wide - wide).to_int64() == 0);
  CHECK((failed - failed).to_int64() == std::nullopt);
  CHECK(failed.to_int64() == std::nullopt);
  CHECK((failed + 0).to_int64() == std::nullopt);
  CHECK((failed * 0).to_int64() == std::nullopt);
  CHECK((CheckedInt{0} * failed).to_int64() == std::nullopt);
  CHECK((CheckedInt{0} + failed).to_int64() == std::nullopt);
  CHECK((CheckedInt{0} - failed).to_int64() == std::nullopt);
  CHECK(floor_div(failed, failed).to_int64() == std::nullopt);
  CHECK(ceil_div(CheckedInt{1}, failed).to_int64() == std::nullopt);
  CHECK(min(CheckedInt{1}, failed).to_int64() == std::nullopt);
  CHECK(max(failed, CheckedInt{1}).to_int64() == std::nullopt);
  CHECK(failed.saturated() == kMax);
  CheckedInt sum{1};
  sum += failed;
  CHECK(sum.to_int64() == std::nullopt);
}

TEST_CASE("division by zero, by less, or of less than zero fails", "[core][checked]") {
  CHECK(floor_div(CheckedInt{1}, 0).to_int64() == std::nullopt);
  CHECK(ceil_div(CheckedInt{1}, 0).to_int64() == std::nullopt);
  CHECK(floor_div(CheckedInt{1}, -1).to_int64() == std::nullopt);
  CHECK(ceil_div(CheckedInt{-1}, 2).to_int64() == std::nullopt);
  CHECK(floor_div(CheckedInt{kMin}, -1).to_int64() == std::nullopt);
}

/// A number near an end or a power of two as often as any other.
rc::Gen<std::int64_t> any_number() {
  const auto near = [](std::int64_t middle) {
    return rc::gen::map(rc::gen::inRange(-2, 3), [middle](int offset) {
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(middle) +
                                       static_cast<std::uint64_t>(std::int64_t{offset}));
    });
  };
  return rc::gen::oneOf(near(0), near(kMax), near(kMin), near(std::int64_t{1} << 31),
                        near(std::int64_t{1} << 32), rc::gen::arbitrary<std::int64_t>());
}

/// The reference: a 128-bit number that fits into 64 bits, or nothing.
std::optional<std::int64_t> narrow(CheckedInt::Wide value) {
  if (value < kMin || value > kMax) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(value);
}

TEST_CASE("one operation agrees with 128-bit arithmetic", "[core][checked][property]") {
  CHECK(rc::check([] {
    const std::int64_t a = *any_number();
    const std::int64_t b = *any_number();
    const CheckedInt::Wide wide_a = a;
    RC_ASSERT((CheckedInt{a} + b).to_int64() == narrow(wide_a + b));
    RC_ASSERT((CheckedInt{a} - b).to_int64() == narrow(wide_a - b));
    RC_ASSERT((CheckedInt{a} * b).to_int64() == narrow(wide_a * b));
  }));
}

TEST_CASE("division undoes multiplication", "[core][checked][property]") {
  CHECK(rc::check([] {
    const auto a = *rc::gen::suchThat(any_number(), [](std::int64_t x) { return x >= 0; });
    const auto b = *rc::gen::suchThat(any_number(), [](std::int64_t x) { return x > 0; });
    RC_ASSERT(floor_div(CheckedInt{a} * b, b).to_int64() == a);
    RC_ASSERT(ceil_div(CheckedInt{a} * b, b).to_int64() == a);
    // a * b + 1 is a multiple of b only for b = 1; rounding up then adds one in both cases.
    RC_ASSERT(ceil_div(CheckedInt{a} * b + 1, b).to_int64() == narrow(CheckedInt::Wide{a} + 1));
    RC_ASSERT(floor_div(CheckedInt{a} * b + (CheckedInt{b} - 1), b).to_int64() == a);
  }));
}

}  // namespace
}  // namespace kvpool
