// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/core/size_text.hpp>

#include <kvpool/core/checked.hpp>

#include "core/format.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace kvpool {
namespace {

constexpr std::int64_t kDecimalBase = 10;
constexpr std::int64_t kKilo = 1000;
constexpr std::int64_t kKibi = 1024;

/// A unit as it is written, and how many bytes or tokens it stands for.
struct Unit {
  std::string_view name;
  std::int64_t scale;
};

/// `whole.fraction suffix`, cut into its parts and not yet evaluated.
struct NumberText {
  std::string_view whole;
  std::string_view fraction;
  std::string_view suffix;
};

constexpr std::array kSizeUnits = {
    Unit{"B", 1},
    Unit{"KB", kKilo},
    Unit{"KiB", kKibi},
    Unit{"MB", kKilo* kKilo},
    Unit{"MiB", kKibi* kKibi},
    Unit{"GB", kKilo* kKilo* kKilo},
    Unit{"GiB", kKibi* kKibi* kKibi},
    Unit{"TB", kKilo* kKilo* kKilo* kKilo},
    Unit{"TiB", kKibi* kKibi* kKibi* kKibi},
};

constexpr std::array kTokenUnits = {
    Unit{"k", kKilo},
    Unit{"K", kKibi},
    Unit{"m", kKilo* kKilo},
    Unit{"M", kKibi* kKibi},
    Unit{"g", kKilo* kKilo* kKilo},
    Unit{"G", kKibi* kKibi* kKibi},
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_in_any_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) {
      return false;
    }
  }
  return true;
}

std::string_view without_outer_spaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') {
    text.remove_prefix(1);
  }
  while (!text.empty() && text.back() == ' ') {
    text.remove_suffix(1);
  }
  return text;
}

std::string_view take_digits(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) {
    ++end;
  }
  const std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  return digits;
}

/// Nothing when the text does not start with digits, or has a point without digits behind it.
std::optional<NumberText> split_number(std::string_view text) {
  NumberText parts;
  parts.whole = take_digits(text);
  if (parts.whole.empty()) {
    return std::nullopt;
  }
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    parts.fraction = take_digits(text);
    if (parts.fraction.empty()) {
      return std::nullopt;
    }
  }
  parts.suffix = without_outer_spaces(text);
  return parts;
}

/// `number * scale` rounded down, and whether rounding lost something.
struct Scaled {
  std::optional<std::int64_t> value;
  bool exact = true;
};

Scaled scale_number(const NumberText& number, std::int64_t scale) {
  CheckedInt whole{0};
  for (const char c : number.whole) {
    whole = whole * kDecimalBase + (c - '0');
  }
  // Horner's rule from the last digit on: rounding down at each step rounds down the whole.
  Scaled result;
  std::int64_t part = 0;
  for (std::size_t i = number.fraction.size(); i > 0; --i) {
    const std::int64_t tenfold = scale * (number.fraction[i - 1] - '0') + part;
    result.exact = result.exact && tenfold % kDecimalBase == 0;
    part = tenfold / kDecimalBase;
  }
  result.value = (whole * scale + part).to_int64();
  return result;
}

Error bad_text(ErrorCode code, std::string_view text, std::string_view why) {
  std::string value = format_excerpt(text);
  std::string message = fmt::format("'{}' {}", value, why);
  return {.code = code, .message = std::move(message), .value = std::move(value)};
}

Error not_a_number(std::string_view text, std::string_view what, std::string_view examples) {
  const std::string_view trimmed = without_outer_spaces(text);
  if (trimmed.size() > 1 && trimmed.front() == '-' && is_digit(trimmed[1])) {
    return bad_text(ErrorCode::kInvalidArgument, text,
                    fmt::format("is negative: {} starts at 0, as in {}", what, examples));
  }
  return bad_text(ErrorCode::kInvalidArgument, text,
                  fmt::format("is not {}: write digits, as in {}", what, examples));
}

/// The unit `<prefix>B` for a bare prefix such as `G`, and nothing for other text.
const Unit* decimal_unit_of_prefix(std::string_view suffix) {
  for (std::size_t i = 1; i < kSizeUnits.size(); i += 2) {
    if (equal_in_any_case(suffix, kSizeUnits.at(i).name.substr(0, 1))) {
      return &kSizeUnits.at(i);
    }
  }
  return nullptr;
}

Error unknown_size_unit(std::string_view text, const NumberText& number) {
  if (const Unit* decimal = decimal_unit_of_prefix(number.suffix)) {
    const Unit* binary = decimal + 1;
    return bad_text(
        ErrorCode::kInvalidArgument, text,
        fmt::format("has an ambiguous unit: write {0} ({1} B) or {2} ({3} B)", decimal->name,
                    format_count(decimal->scale), binary->name, format_count(binary->scale)));
  }
  return bad_text(
      ErrorCode::kInvalidArgument, text,
      fmt::format("has the unknown unit '{}': write B, KB, KiB, MB, MiB, GB, GiB, TB or TiB",
                  format_excerpt(number.suffix)));
}

}  // namespace

Result<Bytes> parse_size(std::string_view text) {
  constexpr std::string_view kWhat = "a size";
  constexpr std::string_view kExamples = "80GB, 139.8GiB or 150109106995B";
  const auto number = split_number(without_outer_spaces(text));
  if (!number.has_value()) {
    return not_a_number(text, kWhat, kExamples);
  }
  const std::string_view name = number->suffix.empty() ? kSizeUnits.front().name : number->suffix;
  for (const Unit& unit : kSizeUnits) {
    if (!equal_in_any_case(name, unit.name)) {
      continue;
    }
    if (unit.scale == 1 && !number->fraction.empty()) {
      return bad_text(ErrorCode::kInvalidArgument, text,
                      fmt::format("is a fraction of a byte: write whole bytes or a larger unit, as "
                                  "in {}",
                                  kExamples));
    }
    const Scaled scaled = scale_number(*number, unit.scale);
    if (!scaled.value.has_value()) {
      return bad_text(ErrorCode::kOutOfRange, text,
                      "is more than 9,223,372,036,854,775,807 B, the largest size");
    }
    return Bytes{*scaled.value};
  }
  return unknown_size_unit(text, *number);
}

Result<Tokens> parse_token_count(std::string_view text) {
  constexpr std::string_view kWhat = "a number of tokens";
  constexpr std::string_view kExamples = "131072, 128k (128,000) or 128K (131,072)";
  const auto number = split_number(without_outer_spaces(text));
  if (!number.has_value()) {
    return not_a_number(text, kWhat, kExamples);
  }
  std::optional<Unit> unit;
  if (number->suffix.empty()) {
    unit = Unit{"", 1};
  }
  for (const Unit& known : kTokenUnits) {
    if (number->suffix == known.name) {
      unit = known;
    }
  }
  if (!unit.has_value()) {
    return bad_text(ErrorCode::kInvalidArgument, text,
                    fmt::format("has the unknown suffix '{}': write k, m or g for powers of 1,000, "
                                "K, M or G for powers of 1,024",
                                format_excerpt(number->suffix)));
  }
  const Scaled scaled = scale_number(*number, unit->scale);
  const bool binary = !unit->name.empty() && unit->name.front() != lower(unit->name.front());
  if (!number->fraction.empty() && binary) {
    return bad_text(ErrorCode::kInvalidArgument, text,
                    fmt::format("has a fraction and the binary suffix {0}: write a whole number, "
                                "or the decimal suffix {1}",
                                unit->name, lower(unit->name.front())));
  }
  if (!number->fraction.empty() && (unit->scale == 1 || !scaled.exact)) {
    return bad_text(ErrorCode::kInvalidArgument, text,
                    fmt::format("is not a whole number of tokens: write it as in {}", kExamples));
  }
  if (!scaled.value.has_value()) {
    return bad_text(ErrorCode::kOutOfRange, text,
                    "is more than 9,223,372,036,854,775,807 tokens, the largest number");
  }
  return Tokens{*scaled.value};
}

std::string size_text(Bytes size) { return format_bytes(size); }

std::string size_argument(Bytes size) {
  for (std::size_t i = kSizeUnits.size() - 1; i > 0; i -= 2) {
    const Unit& unit = kSizeUnits.at(i);
    if (size.count() != 0 && size.count() % unit.scale == 0) {
      return fmt::format("{}{}", size.count() / unit.scale, unit.name);
    }
  }
  return fmt::format("{}B", size.count());
}

}  // namespace kvpool
