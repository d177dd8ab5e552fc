// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/failing_memory.hpp>
#include <kvpool/memory/limited_memory.hpp>
#include <kvpool/memory/recording_memory.hpp>
#include <kvpool/memory/simulated_memory.hpp>

#include "support/catch.hpp"
#include "support/page_memory_suite.hpp"

#include <string>
#include <vector>

namespace kvpool {
namespace {

using namespace kvpool::literals;

TEST_CASE("adaptors keep the contract of page memory", "[memory][adaptors]") {
  SECTION("limited") {
    test::page_memory_suite(
        {.make = [] { return AnyPageMemory{LimitedMemory{SimulatedMemory{}, 32_MiB}}; }});
  }
  SECTION("failing, of which nothing fails") {
    test::page_memory_suite(
        {.make = [] { return AnyPageMemory{FailingMemory{SimulatedMemory{}, {}}}; }});
  }
  SECTION("recording") {
    test::page_memory_suite(
        {.make = [] { return AnyPageMemory{RecordingMemory{SimulatedMemory{}}}; }});
  }
  SECTION("recording a limited one") {
    test::page_memory_suite({.make = [] {
      return AnyPageMemory{RecordingMemory{LimitedMemory{SimulatedMemory{}, 32_MiB}}};
    }});
  }
}

TEST_CASE("a limit is reached exactly and says what is missing", "[memory][limited]") {
  LimitedMemory memory{SimulatedMemory{}, 5_MiB};
  CHECK(memory.limit() == 5_MiB);
  const Region region = memory.reserve(1_GiB).value();
  REQUIRE(memory.commit(region, 0_B, 4_MiB).has_value());
  const auto beyond = memory.commit(region, 4_MiB, 2_MiB);
  REQUIRE_FALSE(beyond.has_value());
  CHECK(beyond.error().code == ErrorCode::kExhausted);
  CHECK(beyond.error().message ==
        "committing 2,097,152 B (2.00 MiB) on top of 4,194,304 B (4.00 MiB) exceeds the limit of "
        "5,242,880 B (5.00 MiB): 1,048,576 B (1.00 MiB) are missing");
  REQUIRE(memory.decommit(region, 0_B, 2_MiB).has_value());
  CHECK(memory.commit(region, 4_MiB, 2_MiB).has_value());
  REQUIRE(memory.release(region).has_value());
  CHECK(memory.held() == 0_B);
}

TEST_CASE("a limit does not count what others hold, nor what failed upstream",
          "[memory][limited]") {
  SimulatedMemory upstream = SimulatedMemory::create({.capacity = 6_MiB}).value();
  const Region others = upstream.reserve(4_MiB).value();
  REQUIRE(upstream.commit(others, 0_B, 4_MiB).has_value());
  LimitedMemory memory{upstream, 4_MiB};
  CHECK(memory.held() == 0_B);
  const Region region = memory.reserve(4_MiB).value();
  CHECK(test::code_of(memory.commit(region, 0_B, 4_MiB)) == ErrorCode::kExhausted);
  CHECK(memory.held() == 0_B);
  CHECK(memory.commit(region, 0_B, 2_MiB).has_value());
  CHECK(memory.held() == 2_MiB);
  CHECK(memory.release(others).has_value());
  CHECK(memory.held() == 2_MiB);
}

TEST_CASE("a limit below zero lets nothing through", "[memory][limited]") {
  LimitedMemory memory{SimulatedMemory{}, Bytes{-1}};
  const Region region = memory.reserve(2_MiB).value();
  CHECK(test::code_of(memory.commit(region, 0_B, 2_MiB)) == ErrorCode::kExhausted);
}

TEST_CASE("only the planned call fails, and does not reach the upstream", "[memory][failing]") {
  RecordingMemory upstream{SimulatedMemory{}};
  SECTION("of reserve") {
    FailingMemory memory{upstream, {.reserve = 2}};
    CHECK(memory.reserve(2_MiB).has_value());
    const auto failed = memory.reserve(2_MiB);
    CHECK(test::code_of(failed) == ErrorCode::kExhausted);
    CHECK(failed.error().message == "call 2 of reserve fails, as planned");
    CHECK(memory.reserve(2_MiB).has_value());
    CHECK(upstream.calls().size() == 2);
  }
  SECTION("of commit") {
    FailingMemory memory{upstream, {.commit = 1, .code = ErrorCode::kDevice}};
    const Region region = memory.reserve(2_MiB).value();
    CHECK(test::code_of(memory.commit(region, 0_B, 2_MiB)) == ErrorCode::kDevice);
    CHECK(memory.held() == 0_B);
    CHECK(memory.commit(region, 0_B, 2_MiB).has_value());
  }
  SECTION("of decommit") {
    FailingMemory memory{upstream, {.decommit = 1}};
    const Region region = memory.reserve(2_MiB).value();
    REQUIRE(memory.commit(region, 0_B, 2_MiB).has_value());
    CHECK(test::code_of(memory.decommit(region, 0_B, 2_MiB)) == ErrorCode::kExhausted);
    CHECK(memory.held() == 2_MiB);
    CHECK(memory.decommit(region, 0_B, 2_MiB).has_value());
  }
}

TEST_CASE("a recording holds each call, failed ones too", "[memory][recording]") {
  RecordingMemory memory{SimulatedMemory{}};
  const Region region = memory.reserve(4_MiB).value();
  CHECK(memory.commit(region, 2_MiB, 2_MiB).has_value());
  CHECK_FALSE(memory.commit(region, 2_MiB, 2_MiB).has_value());
  CHECK(memory.decommit(region, 2_MiB, 2_MiB).has_value());
  CHECK_FALSE(memory.reserve(1_B).has_value());
  CHECK(memory.release(region).has_value());
  const std::vector<MemoryCall> expected = {
      {.operation = MemoryOperation::kReserve,
       .region = {.address = 0x1000'0000'0000, .size = 4_MiB},
       .offset = 0_B,
       .size = 4_MiB,
       .succeeded = true},
      {.operation = MemoryOperation::kCommit,
       .region = region,
       .offset = 2_MiB,
       .size = 2_MiB,
       .succeeded = true},
      {.operation = MemoryOperation::kCommit,
       .region = region,
       .offset = 2_MiB,
       .size = 2_MiB,
       .succeeded = false},
      {.operation = MemoryOperation::kDecommit,
       .region = region,
       .offset = 2_MiB,
       .size = 2_MiB,
       .succeeded = true},
      {.operation = MemoryOperation::kReserve,
       .region = {},
       .offset = 0_B,
       .size = 1_B,
       .succeeded = false},
      {.operation = MemoryOperation::kRelease,
       .region = region,
       .offset = 0_B,
       .size = 4_MiB,
       .succeeded = true},
  };
  CHECK(memory.calls() == expected);
  memory.clear();
  CHECK(memory.calls().empty());
  CHECK(to_string(MemoryOperation::kReserve) == "reserve");
  CHECK(to_string(MemoryOperation::kCommit) == "commit");
  CHECK(to_string(MemoryOperation::kDecommit) == "decommit");
  CHECK(to_string(MemoryOperation::kRelease) == "release");
}

}  // namespace
}  // namespace kvpool
