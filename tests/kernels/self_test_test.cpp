// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// The self-test on the host: the reference passes, and each kind of fault is found.
#include <kvpool/kernels/self_test.hpp>

#include <kvpool/kernels/capabilities.hpp>
#include <kvpool/kernels/reference.hpp>
#include <kvpool/memory/host_memory.hpp>
#include <kvpool/memory/host_queue.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvpool::kernels {
namespace {

SelfTestKernels on_host() {
  return {.append = [](const AppendParams& params) { return reference::append(params); },
          .attention = [](const AttentionParams& params) { return reference::attention(params); },
          .plan_packed =
              [](const PackedPlanParams& params) { return plan_packed_attention_on_host(params); },
          .packed =
              [](const AttentionParams& params, const PackedOptions& options) {
                const auto checked = check_packed(params, options);
                return checked.has_value() ? reference::attention(params) : checked;
              },
          .queue = HostQueue{},
          .scratch = HostMemory{},
          .multiprocessors = 4};
}

/// The rows with one format and head dim each: the reference takes a while.
std::vector<KernelCapability> short_rows() {
  const auto bundled = bundled_kernels();
  std::vector<KernelCapability> rows{bundled.begin(), bundled.end()};
  for (KernelCapability& row : rows) {
    row.limits.head_dims = {64};
    row.limits.kv_dtypes = {row.limits.kv_dtypes.front()};
  }
  return rows;
}

SelfTestReport report_of(const SelfTestKernels& kernels,
                         const std::vector<KernelCapability>& rows) {
  const auto report = self_test(kernels, rows);
  INFO((report.has_value() ? "" : to_string(report.error())));
  REQUIRE(report.has_value());
  return *report;
}

std::string finding_of(const SelfTestReport& report, const std::string& row) {
  const auto found = std::ranges::find(report.rows, row, &RowResult::row);
  REQUIRE(found != report.rows.end());
  return found->finding;
}

TEST_CASE("every bundled row is checked, and the reference passes", "[self_test]") {
  const auto bundled = bundled_kernels();
  std::vector<KernelCapability> rows = short_rows();
  rows.back() = bundled.back();
  const SelfTestReport report = report_of(on_host(), rows);
  INFO(report.text());
  CHECK(report.passed());
  REQUIRE(report.rows.size() == bundled.size());
  for (const RowResult& row : report.rows) {
    CHECK(row.cases > 0);
  }
  // Two formats, two row lengths, three page sizes, four shapes.
  CHECK(report.rows.back().row == "kvpool_packed_block");
  CHECK(report.rows.back().cases == 48);
  CHECK_THAT(report.text(), Catch::Matchers::ContainsSubstring("correct to the bit"));
}

TEST_CASE("a row that nothing checks is a finding, and so are no rows", "[self_test]") {
  std::vector<KernelCapability> rows = short_rows();
  rows.resize(1);
  rows.front().name = "kvpool_new_kernel";
  const SelfTestReport report = report_of(on_host(), rows);
  CHECK_FALSE(report.passed());
  CHECK_THAT(report.text(), Catch::Matchers::ContainsSubstring("has no check for it"));
  CHECK_FALSE(report_of(on_host(), {}).passed());
}

TEST_CASE("wrong kernels are found", "[self_test]") {
  SelfTestKernels wrong = on_host();
  SECTION("an append that swaps keys and values") {
    wrong.append = [](AppendParams params) {
      std::swap(params.k_cache.base, params.v_cache.base);
      return reference::append(params);
    };
    const SelfTestReport report = report_of(wrong, short_rows());
    CHECK_FALSE(finding_of(report, "kvpool_append").empty());
    CHECK(finding_of(report, "kvpool_simple_decode").empty());
  }
  SECTION("attention that writes nothing") {
    wrong.attention = [](const AttentionParams&) { return Result<void>{}; };
    const SelfTestReport report = report_of(wrong, short_rows());
    for (const char* const row :
         {"kvpool_simple_decode", "kvpool_simple_prefill", "kvpool_simple_block"}) {
      CHECK_FALSE(finding_of(report, row).empty());
    }
    CHECK(finding_of(report, "kvpool_packed_block").empty());
  }
  SECTION("packed attention that is causal where it should not be") {
    wrong.packed = [](AttentionParams params, const PackedOptions& /*options*/) {
      params.causal = 1;
      return reference::attention(params);
    };
    const SelfTestReport report = report_of(wrong, short_rows());
    CHECK(finding_of(report, "kvpool_packed_decode").empty());
    CHECK_FALSE(finding_of(report, "kvpool_packed_block").empty());
  }
  SECTION("a log-sum-exp that is not written") {
    wrong.packed = [](AttentionParams params, const PackedOptions& /*options*/) {
      params.lse = nullptr;
      return reference::attention(params);
    };
    CHECK_THAT(finding_of(report_of(wrong, short_rows()), "kvpool_packed_decode"),
               Catch::Matchers::ContainsSubstring("log-sum-exp"));
  }
}

TEST_CASE("a kernel that refuses ends the self-test", "[self_test]") {
  SelfTestKernels broken = on_host();
  broken.plan_packed = [](const PackedPlanParams&) -> Result<void> {
    return Error{.code = ErrorCode::kDevice, .message = "the device is gone"};
  };
  const auto report = self_test(broken, short_rows());
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().message == "the device is gone");
}

}  // namespace
}  // namespace kvpool::kernels
