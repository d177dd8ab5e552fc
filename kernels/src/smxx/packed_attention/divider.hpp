// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/block/page_table_view.hpp>

#include <cstdint>

namespace kvpool::kernels::packed {

/// Division of numbers below 2^31 by a number that the host knows.
class Divider {
 public:
  Divider() = default;
  /// @pre divisor > 0
  explicit Divider(std::int32_t divisor) : divisor_{static_cast<std::uint32_t>(divisor)} {
    while ((std::uint64_t{1} << shift_) < divisor_) {
      ++shift_;
    }
    const std::uint64_t above = (std::uint64_t{1} << shift_) - divisor_;
    multiplier_ = static_cast<std::uint32_t>((above << 32U) / divisor_) + 1;
  }

  /// number / divisor
  [[nodiscard]] KVPOOL_HOST_DEVICE std::int32_t quotient(std::int32_t number) const {
    const auto n = static_cast<std::uint32_t>(number);
    const auto high = static_cast<std::uint32_t>((std::uint64_t{n} * multiplier_) >> 32U);
    return static_cast<std::int32_t>((high + n) >> shift_);
  }
  /// number % divisor, if `quotient` is number / divisor
  [[nodiscard]] KVPOOL_HOST_DEVICE std::int32_t rest(std::int32_t number,
                                                     std::int32_t quotient) const {
    return number - quotient * static_cast<std::int32_t>(divisor_);
  }
  [[nodiscard]] KVPOOL_HOST_DEVICE std::int32_t divisor() const {
    return static_cast<std::int32_t>(divisor_);
  }

 private:
  std::uint32_t divisor_ = 1;
  std::uint32_t multiplier_ = 1;
  std::uint32_t shift_ = 0;
};

}  // namespace kvpool::kernels::packed
