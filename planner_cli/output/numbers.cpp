// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "output/numbers.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace kvpool::cli {
namespace {

/// `value / unit` to the nearest hundredth.
[[nodiscard]] std::string hundredths(std::int64_t value, std::int64_t unit) {
  __extension__ using Wide = __int128;
  const bool negative = value < 0;
  const Wide magnitude = negative ? -Wide{value} : Wide{value};
  const Wide rounded = (magnitude * 100 + unit / 2) / unit;
  const auto whole = static_cast<std::int64_t>(rounded / 100);
  const auto rest = static_cast<int>(rounded % 100);
  return fmt::format("{}{}.{:02}", negative ? "-" : "", count_text(whole), rest);
}

}  // namespace

std::string count_text(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string bytes_text(Bytes bytes) { return count_text(bytes.count()) + " B"; }

std::string gib_number(Bytes bytes) { return hundredths(bytes.count(), std::int64_t{1} << 30); }

std::string short_size(Bytes bytes) {
  constexpr std::array<std::string_view, 4> kUnits{"KiB", "MiB", "GiB", "TiB"};
  const std::int64_t magnitude = bytes.count() < 0 ? -(bytes.count() + 1) : bytes.count();
  std::size_t power = 0;
  while (power < kUnits.size() && (magnitude >> (10 * (power + 1))) > 0) {
    ++power;
  }
  if (power == 0) {
    return bytes_text(bytes);
  }
  return hundredths(bytes.count(), std::int64_t{1} << (10 * power)) + " " +
         std::string{kUnits.at(power - 1)};
}

std::string counted(std::int64_t count, const std::string& noun) {
  return count_text(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace kvpool::cli
