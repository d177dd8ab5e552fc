// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/kernels/workspace.hpp>

#include <kvpool/memory/host_memory.hpp>
#include <kvpool/memory/limited_memory.hpp>

#include "support/catch.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

namespace kvpool::kernels {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr Bytes kGranule{65'536};

HostMemory host_memory() {
  auto memory = HostMemory::create(kGranule);
  REQUIRE(memory.has_value());
  return *memory;
}

TEST_CASE("requests of decode rows, as TensorRT-LLM 20373 sizes them", "[kernels]") {
  constexpr std::array<std::int64_t, 5> kBatches = {1, 2, 32, 33, 200};
  constexpr std::array<std::int64_t, 5> kBlock4 = {4, 8, 128, 128, 200};
  constexpr std::array<std::int64_t, 5> kBlock7 = {7, 14, 224, 224, 224};
  for (std::size_t i = 0; i < kBatches.size(); ++i) {
    CHECK(decode_rows_requests(kBatches[i], 4, 32) == kBlock4[i]);
    CHECK(decode_rows_requests(kBatches[i], 7, 32) == kBlock7[i]);
  }
}

TEST_CASE("the bundled kernels need no workspace", "[kernels]") {
  CHECK(required_workspace(
            {.batch = 256, .query_tokens = 16, .query_heads = 64, .value_dim = 128}) == Bytes{0});
}

TEST_CASE("a workspace grows outside of captures only", "[kernels]") {
  HostMemory memory = host_memory();
  bool capturing = false;
  Workspace workspace{memory, [&capturing] { return capturing; }};
  // 16 KiB for every request of batches of 2 and 16 with a block of 4 tokens.
  const Bytes small{decode_rows_requests(2, 4, 32) * 16'384};
  const Bytes large{decode_rows_requests(16, 4, 32) * 16'384};
  REQUIRE(small == Bytes{131'072});
  REQUIRE(large == Bytes{1'048'576});

  const auto empty = workspace.require(Bytes{0});
  REQUIRE(empty.has_value());
  CHECK(empty->address == 0);
  CHECK(memory.held() == Bytes{0});

  const auto first = workspace.require(small);
  REQUIRE(first.has_value());
  CHECK(workspace.held() == small);
  CHECK(memory.held() == small);

  SECTION("sized for the largest shape first, a capture uses it") {
    REQUIRE(workspace.require(large).has_value());
    capturing = true;
    const auto captured = workspace.require(small);
    REQUIRE(captured.has_value());
    CHECK(captured->size == large);
    CHECK(memory.held() == large);
    std::memset(reinterpret_cast<void*>(captured->address), 1,  // NOLINT: host memory
                static_cast<std::size_t>(captured->size.count()));
  }
  SECTION("growing while capturing is an error that changes nothing") {
    capturing = true;
    const auto grown = workspace.require(large);
    REQUIRE_FALSE(grown.has_value());
    CHECK(grown.error().code == ErrorCode::kExhausted);
    CHECK(grown.error().message ==
          "the workspace holds 131072 bytes and 1048576 are needed while a stream is captured: "
          "size it for the largest shape first");
    CHECK(memory.held() == small);
    capturing = false;
    CHECK(workspace.require(large).has_value());  // nothing was captured with it
  }
  SECTION("growing after a capture is one too: the graph keeps the address") {
    capturing = true;
    REQUIRE(workspace.require(small).has_value());
    capturing = false;
    CHECK_THAT(workspace.require(large).error().message, ContainsSubstring("after a stream"));
    CHECK(workspace.require(small)->address == first->address);
    workspace.reset();
    CHECK(memory.held() == Bytes{0});
    CHECK(workspace.require(large).has_value());
  }
}

TEST_CASE("a workspace holds whole granules and gives them back", "[kernels]") {
  HostMemory memory = host_memory();
  {
    Workspace workspace{memory, {}};
    REQUIRE(workspace.require(Bytes{1}).has_value());
    CHECK(memory.held() == kGranule);
    Workspace moved{std::move(workspace)};
    CHECK(moved.held() == kGranule);
    CHECK(workspace.held() == Bytes{0});  // NOLINT: moved from, and empty
    Workspace other{memory, {}};
    REQUIRE(other.require(Bytes{65'537}).has_value());
    CHECK(memory.held() == 3 * kGranule);
    other = std::move(moved);
    CHECK(memory.held() == kGranule);
  }
  CHECK(memory.held() == Bytes{0});
  CHECK(Workspace{memory, {}}.require(Bytes{-1}).error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("a workspace that cannot grow keeps what it has", "[kernels]") {
  HostMemory memory = host_memory();
  Workspace workspace{LimitedMemory{memory, 2 * kGranule}, {}};
  const auto held = workspace.require(kGranule);
  REQUIRE(held.has_value());
  CHECK(workspace.require(2 * kGranule).error().code == ErrorCode::kExhausted);
  CHECK(workspace.require(kGranule)->address == held->address);
  CHECK(memory.held() == kGranule);
}

}  // namespace
}  // namespace kvpool::kernels
