// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Merged parts against the dense computation over the whole, in fp64.
#include <kvpool/kernels/reference.hpp>

#include "kernels/compare.hpp"
#include "kernels/dense_oracle.hpp"
#include "kernels/element_bytes.hpp"
#include "support/catch.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

namespace kvpool::test {
namespace {

using kernels::ElementType;
using kernels::LogBase;

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kTokens = 3;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kDim = 16;

std::vector<double> numbers(std::int64_t count, std::mt19937& random) {
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) {
    value = normal(random);
  }
  return values;
}

/// Tokens that all see the same keys, cut into parts.
struct Cut {
  DenseProblem problem{.query_heads = kHeads,
                       .kv_heads = 2,
                       .key_dim = 8,
                       .value_dim = kDim,
                       .scale = 2.0,
                       .causal = false};
  DenseResult whole;
  /// Item by item, its parts one after the other; rows have a gap of 8 elements, which is NaN.
  std::vector<float> out, lse;
  std::vector<std::int32_t> indptr{0};

  explicit Cut(const std::vector<std::int64_t>& lengths, const std::vector<double>& sinks) {
    std::mt19937 random{11};
    std::vector<DenseResult> parts;
    DenseSequence all{.queries = kTokens};
    all.q = numbers(kTokens * kHeads * problem.key_dim, random);
    for (const std::int64_t length : lengths) {
      DenseSequence part{.length = length, .queries = kTokens, .q = all.q};
      part.k = numbers(length * problem.kv_heads * problem.key_dim, random);
      part.v = numbers(length * problem.kv_heads * kDim, random);
      all.k.insert(all.k.end(), part.k.begin(), part.k.end());
      all.v.insert(all.v.end(), part.v.begin(), part.v.end());
      all.length += length;
      parts.push_back(dense_attention(problem, part));
    }
    problem.sinks = sinks;
    whole = dense_attention(problem, all);
    // An address even of nothing.
    out.reserve(kDim);
    lse.reserve(1);
    for (std::int64_t item = 0; item < kTokens * kHeads; ++item) {
      for (const DenseResult& part : parts) {
        const double natural = part.lse_natural[static_cast<std::size_t>(item)];
        lse.push_back(static_cast<float>(natural * std::numbers::log2e));
        for (std::int64_t i = 0; i < kDim + 8; ++i) {
          // What a kernel leaves of a part without keys counts for nothing.
          const bool given = i < kDim && std::isfinite(natural);
          out.push_back(
              given ? static_cast<float>(part.out[static_cast<std::size_t>(item * kDim + i)])
                    : std::numeric_limits<float>::quiet_NaN());
        }
      }
      indptr.push_back(static_cast<std::int32_t>(lse.size()));
    }
  }

  [[nodiscard]] kernels::MergeParams params() const {
    return {.partial_out = out.data(),
            .partial_lse = lse.data(),
            .part_indptr = indptr.data(),
            .partial_row_stride = kDim + 8,
            .out_token_stride = kHeads * kDim,
            .out_head_stride = kDim,
            .lse_token_stride = kHeads,
            .lse_head_stride = 1,
            .tokens = kTokens,
            .query_heads = kHeads,
            .dim = kDim};
  }
};

TEST_CASE("reference: merged parts are attention over the whole", "[kernels]") {
  const auto type = GENERATE(ElementType::kBf16, ElementType::kFp16, ElementType::kFp32);
  const auto base = GENERATE(LogBase::kTwo, LogBase::kNatural);
  const auto lengths = GENERATE(
      values<std::vector<std::int64_t>>({{7}, {5, 1, 30, 2}, {0, 9, 0}, {3, 0}, {0, 0}, {}}));
  const auto with_sinks = GENERATE(false, true);
  const auto by_indptr = GENERATE(false, true);
  const std::vector<float> sinks = {0.5F, -3.0F, 4.0F, 0.0F};
  const Cut cut{lengths, with_sinks ? std::vector<double>(sinks.begin(), sinks.end())
                                    : std::vector<double>{}};
  INFO(lengths.size() << " parts, sinks " << with_sinks << ", type " << static_cast<int>(type));
  const Elements elements{type};
  const auto size = static_cast<std::size_t>(kernels::element_bytes(type));
  alignas(16) std::array<std::byte, kTokens * kHeads * kDim * sizeof(float)> out;
  out.fill(std::byte{0xFF});
  std::vector<float> lse(kTokens * kHeads, 7.0F);
  kernels::MergeParams params = cut.params();
  params.sinks = with_sinks ? sinks.data() : nullptr;
  params.out = out.data();
  params.lse = lse.data();
  params.out_type = type;
  params.lse_base = base;
  if (!by_indptr) {
    params.part_indptr = nullptr;
    params.parts = static_cast<std::int32_t>(lengths.size());
  }
  const auto merged = kernels::reference::merge(params);
  INFO((merged.has_value() ? "" : to_string(merged.error())));
  REQUIRE(merged.has_value());
  std::vector<float> values;
  for (std::size_t i = 0; i < kTokens * kHeads * kDim; ++i) {
    values.push_back(elements.load(out.data() + i * size));
  }
  std::vector<double> expected_lse = cut.whole.lse_natural;
  for (double& each : expected_lse) {
    each *= base == LogBase::kTwo ? std::numbers::log2e : 1.0;
  }
  const Comparison outputs = compare_outputs(values, cut.whole.out, type);
  const Comparison sums = compare_lse(lse, expected_lse);
  INFO(outputs.text());
  INFO(sums.text());
  CHECK(outputs.within);
  CHECK(sums.within);
}

TEST_CASE("reference: two parts of known numbers", "[kernels]") {
  // Weights 1 and 3: of values 1 and 5 that is 4.
  alignas(16) std::array<float, 16> parts = {1.0F, 0, 0, 0, 0, 0, 0, 0, 5.0F};
  std::array<float, 2> lse = {0.0F, std::log2(3.0F)};
  alignas(16) std::array<float, 8> out = {};
  float sum = 0.0F;
  kernels::MergeParams params{.partial_out = parts.data(),
                              .partial_lse = lse.data(),
                              .out = out.data(),
                              .lse = &sum,
                              .partial_row_stride = 8,
                              .tokens = 1,
                              .query_heads = 1,
                              .dim = 8,
                              .parts = 2,
                              .out_type = ElementType::kFp32};
  REQUIRE(kernels::reference::merge(params).has_value());
  CHECK(out[0] == Catch::Approx(4.0));
  CHECK(sum == Catch::Approx(2.0));
  SECTION("a sink of ln 4 takes half of the weight and none of the log-sum-exp") {
    const float sink = std::log(4.0F);
    params.sinks = &sink;
    REQUIRE(kernels::reference::merge(params).has_value());
    CHECK(out[0] == Catch::Approx(2.0));
    CHECK(sum == Catch::Approx(2.0));
  }
  SECTION("large log-sum-exps do not overflow") {
    lse = {10'000.0F, 10'000.0F};
    REQUIRE(kernels::reference::merge(params).has_value());
    CHECK(out[0] == Catch::Approx(3.0));
    CHECK(sum == Catch::Approx(10'001.0));
  }
  SECTION("nothing to merge: 0 and -infinity, with a sink as well") {
    const float sink = 3.0F;
    params.sinks = &sink;
    lse = {kNothing, kNothing};
    parts.fill(NAN);
    REQUIRE(kernels::reference::merge(params).has_value());
    CHECK(out == std::array<float, 8>{});
    CHECK(sum == kNothing);
  }
  SECTION("an indptr that does not ascend from 0 is an error, and nothing is written") {
    const std::array<std::int32_t, 2> late = {1, 2};
    const std::array<std::int32_t, 2> descending = {0, -1};
    out.fill(9.0F);
    for (const auto* indptr : {late.data(), descending.data()}) {
      params.part_indptr = indptr;
      const auto refused = kernels::reference::merge(params);
      REQUIRE_FALSE(refused.has_value());
      CHECK(refused.error().code == ErrorCode::kOutOfRange);
      CHECK(refused.error().key == "part_indptr");
    }
    CHECK(out[0] == 9.0F);
  }
}

}  // namespace
}  // namespace kvpool::test
