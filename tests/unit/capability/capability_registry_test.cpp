// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/capability/capability_registry.hpp>

#include "support/catch.hpp"
#include "unit/capability/kernel_rows.hpp"

namespace kvpool {
namespace {

using Catch::Matchers::ContainsSubstring;
using rows::draft_row;
using rows::one_of;
using rows::target_row;

std::string fault_of(KernelCapability row) {
  CapabilityRegistry registry;
  const auto added = registry.add(std::move(row));
  if (added.has_value()) {
    return "accepted";
  }
  CHECK(added.error().code == ErrorCode::kInvalidArgument);
  CHECK(registry.rows().empty());
  return added.error().key + ": " + added.error().message;
}

TEST_CASE("a registry keeps rows in the order of addition", "[capability]") {
  CapabilityRegistry registry;
  CHECK(registry.rows().empty());
  REQUIRE(registry.add(target_row("b", PageSizeRule{})).has_value());
  REQUIRE(registry.add(target_row("a", PageSizeRule{})).has_value());
  REQUIRE(registry.rows().size() == 2);
  CHECK(registry.rows()[0].name == "b");
  CHECK(registry.rows()[1].name == "a");
}

TEST_CASE("a registry with the known rows has them all", "[capability]") {
  const CapabilityRegistry registry = CapabilityRegistry::with_known_kernels();
  REQUIRE(registry.rows().size() == known_kernels().size());
  CHECK(registry.rows().front().name == known_kernels().front().name);
}

TEST_CASE("a row needs a name of its own", "[capability]") {
  CHECK_THAT(fault_of(target_row("", PageSizeRule{})), ContainsSubstring("has no name"));
  CapabilityRegistry registry = CapabilityRegistry::with_known_kernels();
  const auto again = registry.add(target_row("flashmla_sm90", PageSizeRule{}));
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().key == "name");
  CHECK(again.error().message ==
        "kernel row 'flashmla_sm90' exists already (from FlashMLA): give it another name");
}

TEST_CASE("a row serves somebody, in a role that fits", "[capability]") {
  KernelCapability row = target_row("row", PageSizeRule{});
  row.serves = {};
  CHECK_THAT(fault_of(row), ContainsSubstring("serves: kernel row 'row' serves nobody"));
  row.serves = {PoolUser::kTarget, PoolUser::kDspark};
  CHECK_THAT(fault_of(row), ContainsSubstring("has the role target_decode and serves dspark"));
  row.role = KernelRole::kDraftBlock;
  CHECK_THAT(fault_of(row), ContainsSubstring("has the role draft_block and serves target"));
  row.role = KernelRole::kAppend;
  CHECK(fault_of(row) == "accepted");
}

TEST_CASE("a row's page rule makes sense", "[capability]") {
  const auto fault = [](PageSizeRule rule) { return fault_of(draft_row("row", std::move(rule))); };
  CHECK_THAT(fault(one_of({})), ContainsSubstring("lists no page size"));
  CHECK_THAT(fault(one_of({0, 32})), ContainsSubstring("lists a page of 0 tokens"));
  CHECK_THAT(fault(one_of({64, 32})), ContainsSubstring("out of order"));
  CHECK_THAT(fault(one_of({32, 32})), ContainsSubstring("out of order or twice"));
  CHECK_THAT(fault(one_of({2'000'000})), ContainsSubstring("sizes go from 1 to 1,048,576"));
  CHECK_THAT(fault(PageSizeRule{PageSizeRule::DivisorsOf{1}}),
             ContainsSubstring("divisors of 1: the number goes from 2"));
  CHECK_THAT(fault(PageSizeRule{PageSizeRule::MultiplesOf{0}}),
             ContainsSubstring("multiples of 0"));
  CHECK_THAT(fault(PageSizeRule{PageSizeRule::MultiplesOf{64, 32}}),
             ContainsSubstring("multiples of 64 up to 32"));
  CHECK(fault(PageSizeRule{PageSizeRule::MultiplesOf{64, 64}}) == "accepted");
  CHECK(fault(PageSizeRule{PageSizeRule::NotRead{}}) == "accepted");
}

TEST_CASE("a row's limits start at 1", "[capability]") {
  KernelCapability row = draft_row("row", PageSizeRule{});
  row.limits.max_batch = 0;
  CHECK_THAT(fault_of(row), ContainsSubstring("has max_batch = 0: it starts at 1"));
  row.limits.max_batch = 1;
  row.limits.head_dims = {64, -64};
  CHECK_THAT(fault_of(row), ContainsSubstring("has a head dim below 1"));
}

TEST_CASE("a row's kernel set is one that is asked", "[capability]") {
  KernelCapability row = draft_row("row", PageSizeRule{});
  row.kernel_set = "exact";
  CHECK_THAT(fault_of(row), ContainsSubstring("belongs to the kernel set 'exact'"));
  row.kernel_set = "kvpool";
  CHECK(fault_of(row) == "accepted");
}

TEST_CASE("kernel sets have names", "[capability]") {
  for (const KernelSet set : {KernelSet::kTrtllm, KernelSet::kExact, KernelSet::kKvpool}) {
    CHECK(parse_kernel_set(to_string(set)) == set);
  }
  CHECK(to_string(KernelSet::kTrtllm) == "trtllm");
  CHECK_FALSE(parse_kernel_set("TRTLLM").has_value());
  CHECK_FALSE(parse_kernel_set("").has_value());
}

}  // namespace
}  // namespace kvpool
