// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "core/format.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace kvpool {
namespace {

constexpr std::array<std::string_view, 5> kBinaryUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
constexpr std::uint64_t kHundredthsPerUnit = 100;
constexpr std::size_t kUnitBits = 10;
constexpr std::size_t kExcerptCharacters = 40;

std::uint64_t magnitude(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  return value < 0 ? std::uint64_t{0} - bits : bits;
}

std::string group_thousands(std::uint64_t value) {
  const std::string digits = fmt::format("{}", value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) {
      text += ',';
    }
    text += digits[i];
  }
  return text;
}

/// `size` in hundredths of `1 << shift` bytes, rounded to the nearest, halves up.
std::uint64_t hundredths(std::uint64_t size, std::size_t shift) {
  const std::uint64_t unit = std::uint64_t{1} << shift;
  const std::uint64_t whole = size >> shift;
  const std::uint64_t rest = size & (unit - 1);
  return whole * kHundredthsPerUnit + (rest * kHundredthsPerUnit + unit / 2) / unit;
}

}  // namespace

std::string format_count(std::int64_t count) {
  return fmt::format("{}{}", count < 0 ? "-" : "", group_thousands(magnitude(count)));
}

std::string format_bytes(Bytes size) {
  const std::uint64_t bytes = magnitude(size.count());
  std::string exact = format_count(size.count()) + " B";
  if (bytes < (std::uint64_t{1} << kUnitBits)) {
    return exact;
  }
  std::size_t unit = 1;
  std::uint64_t value = hundredths(bytes, kUnitBits);
  while (unit + 1 < kBinaryUnits.size() && value >= (kHundredthsPerUnit << kUnitBits)) {
    ++unit;
    value = hundredths(bytes, unit * kUnitBits);
  }
  return fmt::format("{} ({}{}.{:02} {})", exact, size.count() < 0 ? "-" : "",
                     group_thousands(value / kHundredthsPerUnit), value % kHundredthsPerUnit,
                     kBinaryUnits.at(unit));
}

std::string format_address(std::uintptr_t address) { return fmt::format("{:#x}", address); }

std::string format_excerpt(std::string_view text) {
  std::string excerpt;
  for (const char c : text.substr(0, kExcerptCharacters)) {
    const auto code = static_cast<unsigned char>(c);
    excerpt += code < 0x20 || code >= 0x7f ? '?' : c;
  }
  return text.size() > kExcerptCharacters ? excerpt + "..." : excerpt;
}

}  // namespace kvpool
