// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/device_memory.hpp>

#include <kvpool/memory/vmm_memory.hpp>

#include "support/catch.hpp"
#include "support/page_memory_suite.hpp"

namespace kvpool {
namespace {

TEST_CASE("memory of a GPU is unsupported here and says what to build", "[memory][device]") {
  for (const auto& result : {device_memory(0), vmm_memory(0)}) {
    REQUIRE(test::code_of(result) == ErrorCode::kUnsupported);
    CHECK_THAT(result.error().message, Catch::Matchers::ContainsSubstring("kvpool::cuda"));
    CHECK_THAT(result.error().message, Catch::Matchers::ContainsSubstring("KVPOOL_CUDA=ON"));
  }
}

TEST_CASE("a negative device does not exist", "[memory][device]") {
  CHECK(test::code_of(device_memory(-1)) == ErrorCode::kInvalidArgument);
  CHECK(test::code_of(vmm_memory(-1)) == ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvpool
