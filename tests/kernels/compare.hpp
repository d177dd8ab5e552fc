// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Outputs of attention against the oracle's: two ulp at the largest reference value, a relative L2
// error below 1e-2, log-sum-exps within 2^-10, and -infinity exactly where the oracle has it.
#pragma once

#include <kvpool/kernels/cache_operand.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace kvpool::test {

/// Distance of neighbouring numbers of a format at |value|. fp32 results are sums in fp32, in
/// another order than the oracle's, and are held to a 16-bit format's standard as well: fp16's.
[[nodiscard]] inline double ulp_at(kernels::ElementType type, double value) {
  const int fraction_bits = type == kernels::ElementType::kBf16 ? 7 : 10;
  return std::ldexp(1.0, (value == 0.0 ? -14 : std::ilogb(std::fabs(value))) - fraction_bits);
}

/// How far two tensors are apart.
struct Comparison {
  double relative_l2 = 0.0;
  double largest_difference = 0.0;
  double ulps = 0.0;  ///< largest difference in ulp at `largest_reference`
  double largest_reference = 0.0;
  std::size_t worst = 0;  ///< index of the largest difference
  double actual_there = 0.0;
  double expected_there = 0.0;
  bool within = false;

  [[nodiscard]] std::string text() const {
    std::ostringstream out;
    out << "rel L2 " << relative_l2 << ", " << ulps << " ulp at max|ref| " << largest_reference
        << "; worst at " << worst << ": " << actual_there << " for " << expected_there;
    return out.str();
  }
};

/// Outputs. A NaN or an infinity in `actual` is never within.
[[nodiscard]] inline Comparison compare_outputs(const std::vector<float>& actual,
                                                const std::vector<double>& expected,
                                                kernels::ElementType type) {
  Comparison result;
  double squares = 0.0;
  double reference = 0.0;
  bool finite = actual.size() == expected.size();
  for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    const double difference = std::fabs(static_cast<double>(actual[i]) - expected[i]);
    finite = finite && std::isfinite(actual[i]);
    squares += difference * difference;
    reference += expected[i] * expected[i];
    result.largest_reference = std::max(result.largest_reference, std::fabs(expected[i]));
    if (!(difference <= result.largest_difference)) {
      result.largest_difference = difference;
      result.worst = i;
      result.actual_there = static_cast<double>(actual[i]);
      result.expected_there = expected[i];
    }
  }
  result.relative_l2 = reference > 0.0 ? std::sqrt(squares / reference) : std::sqrt(squares);
  result.ulps = result.largest_difference / ulp_at(type, result.largest_reference);
  result.within = finite && result.ulps <= 2.0 && result.relative_l2 < 1e-2;
  return result;
}

/// Log-sum-exps of either base.
[[nodiscard]] inline Comparison compare_lse(const std::vector<float>& actual,
                                            const std::vector<double>& expected) {
  Comparison result;
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  result.within = actual.size() == expected.size();
  for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    const auto found = static_cast<double>(actual[i]);
    const double difference =
        expected[i] == kNothing && found == kNothing ? 0.0 : std::fabs(found - expected[i]);
    if (expected[i] != kNothing) {
      result.largest_reference = std::max(result.largest_reference, std::fabs(expected[i]));
    }
    if (!(difference <= result.largest_difference)) {
      result.largest_difference = difference;
      result.worst = i;
      result.actual_there = found;
      result.expected_there = expected[i];
    }
    result.within = result.within && difference <= 0x1p-10;
  }
  return result;
}

}  // namespace kvpool::test
