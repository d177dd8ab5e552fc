// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/core/size_text.hpp>

#include "support/catch.hpp"

#include <rapidcheck.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace kvpool {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

template <typename T>
std::int64_t count_of(const Result<T>& result) {
  if (!result) {
    FAIL(result.error().message);
  }
  return result->count();
}

TEST_CASE("sizes mean what they say", "[core][size_text]") {
  using Row = std::pair<std::string_view, std::int64_t>;
  for (const auto& [text, bytes] : {
           Row{"0", 0},
           Row{"0GiB", 0},
           Row{"0.0GiB", 0},
           Row{"656", 656},
           Row{"656B", 656},
           Row{"656b", 656},
           Row{"1KB", 1'000},
           Row{"1KiB", 1'024},
           Row{"1MB", 1'000'000},
           Row{"1MiB", 1'048'576},
           Row{"80GB", 80'000'000'000},
           Row{"80GiB", 85'899'345'920},
           Row{"1TB", 1'000'000'000'000},
           Row{"1TiB", 1'099'511'627'776},
           Row{"80gib", 85'899'345'920},
           Row{"80 GiB", 85'899'345'920},
           Row{" 80GiB ", 85'899'345'920},
           Row{"007MB", 7'000'000},
           // 139.8 * 2^30 = 150,109,106,995.2 and 0.1 * 2^30 = 107,374,182.4
           Row{"139.8GiB", 150'109'106'995},
           Row{"0.1GiB", 107'374'182},
           Row{"0.5KiB", 512},
           Row{"1.0009765625KiB", 1'025},
           Row{"1.9999KB", 1'999},
           Row{"0.00000000093132257461547851562GiB", 0},
           Row{"0.000000000931322574615478515625GiB", 1},
           Row{"0.99999999999999999999999999999999999999999999999999TiB", 1'099'511'627'775},
           Row{"9223372036854775807", kMax},
           Row{"8388607.999999999999999999999999TiB", 9'223'372'036'854'775'807},
       }) {
    INFO(text);
    CHECK(count_of(parse_size(text)) == bytes);
  }
}

TEST_CASE("text that is no size is refused with the text in the message", "[core][size_text]") {
  using Row = std::tuple<std::string_view, ErrorCode, std::string_view>;
  for (const auto& [text, code, message] : {
           Row{"", ErrorCode::kInvalidArgument, "'' is not a size"},
           Row{"  ", ErrorCode::kInvalidArgument, "is not a size"},
           Row{"GiB", ErrorCode::kInvalidArgument, "'GiB' is not a size"},
           Row{"nan", ErrorCode::kInvalidArgument, "'nan' is not a size"},
           Row{"NaN", ErrorCode::kInvalidArgument, "'NaN' is not a size"},
           Row{"inf", ErrorCode::kInvalidArgument, "'inf' is not a size"},
           Row{"-1GiB", ErrorCode::kInvalidArgument, "'-1GiB' is negative"},
           Row{"-0", ErrorCode::kInvalidArgument, "is negative"},
           Row{"-", ErrorCode::kInvalidArgument, "is not a size"},
           Row{"+1GiB", ErrorCode::kInvalidArgument, "is not a size"},
           Row{".5GiB", ErrorCode::kInvalidArgument, "is not a size"},
           Row{"1.GiB", ErrorCode::kInvalidArgument, "is not a size"},
           Row{"0x10", ErrorCode::kInvalidArgument, "unknown unit 'x10'"},
           Row{"1e9B", ErrorCode::kInvalidArgument, "unknown unit 'e9B'"},
           Row{"1.5.2GiB", ErrorCode::kInvalidArgument, "unknown unit '.2GiB'"},
           Row{"1,024B", ErrorCode::kInvalidArgument, "unknown unit ',024B'"},
           Row{"1PiB", ErrorCode::kInvalidArgument, "GB, GiB, TB or TiB"},
           Row{"1 G iB", ErrorCode::kInvalidArgument, "unknown unit"},
           Row{"1.5", ErrorCode::kInvalidArgument, "is a fraction of a byte"},
           Row{"1.5B", ErrorCode::kInvalidArgument, "is a fraction of a byte"},
           Row{"80K", ErrorCode::kInvalidArgument,
               "'80K' has an ambiguous unit: write KB (1,000 B) or KiB (1,024 B)"},
           Row{"80m", ErrorCode::kInvalidArgument,
               "'80m' has an ambiguous unit: write MB (1,000,000 B) or MiB (1,048,576 B)"},
           Row{"80G", ErrorCode::kInvalidArgument,
               "'80G' has an ambiguous unit: write GB (1,000,000,000 B) or GiB (1,073,741,824 B)"},
           Row{"80T", ErrorCode::kInvalidArgument, "write TB (1,000,000,000,000 B) or TiB"},
           Row{"9223372036854775808", ErrorCode::kOutOfRange, "'9223372036854775808' is more than"},
           Row{"8388608TiB", ErrorCode::kOutOfRange, "is more than"},
           Row{"99999999999999999999999999999999999999999999B", ErrorCode::kOutOfRange,
               "'9999999999999999999999999999999999999999...' is more than"},
       }) {
    INFO(text);
    const auto result = parse_size(text);
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().code == code);
    CHECK_THAT(result.error().message, Catch::Matchers::ContainsSubstring(std::string{message}));
  }
  CHECK(parse_size("80G").error().value == "80G");
}

TEST_CASE("hostile text is shortened and made printable", "[core][size_text]") {
  const std::string huge(1'000'000, '9');
  CHECK(parse_size(huge).error().value == std::string(40, '9') + "...");
  CHECK(parse_size("\x1b[31m1GiB\n").error().value == "?[31m1GiB?");
  CHECK(parse_size(std::string_view{"1\0GiB", 5}).error().value == "1?GiB");
}

TEST_CASE("token counts read k and K as vLLM does", "[core][size_text]") {
  using Row = std::pair<std::string_view, std::int64_t>;
  for (const auto& [text, tokens] : {
           Row{"0", 0},
           Row{"131072", 131'072},
           Row{"128k", 128'000},
           Row{"128K", 131'072},
           Row{"25.6k", 25'600},
           Row{"1.50k", 1'500},
           Row{"1m", 1'000'000},
           Row{"1M", 1'048'576},
           Row{"1g", 1'000'000'000},
           Row{"1G", 1'073'741'824},
           Row{" 128 K ", 131'072},
           Row{"9223372036854775807", kMax},
       }) {
    INFO(text);
    CHECK(count_of(parse_token_count(text)) == tokens);
  }
}

TEST_CASE("text that is no token count is refused", "[core][size_text]") {
  using Row = std::tuple<std::string_view, ErrorCode, std::string_view>;
  for (const auto& [text, code, message] : {
           Row{"", ErrorCode::kInvalidArgument, "'' is not a number of tokens"},
           Row{"k", ErrorCode::kInvalidArgument, "'k' is not a number of tokens"},
           Row{"nan", ErrorCode::kInvalidArgument, "is not a number of tokens"},
           Row{"-1", ErrorCode::kInvalidArgument, "'-1' is negative"},
           Row{"1.5", ErrorCode::kInvalidArgument, "'1.5' is not a whole number of tokens"},
           Row{"1.0005k", ErrorCode::kInvalidArgument, "is not a whole number of tokens"},
           Row{"1.5K", ErrorCode::kInvalidArgument, "or the decimal suffix k"},
           Row{"1.5G", ErrorCode::kInvalidArgument, "or the decimal suffix g"},
           Row{"128kB", ErrorCode::kInvalidArgument, "unknown suffix 'kB'"},
           Row{"128KiB", ErrorCode::kInvalidArgument, "unknown suffix 'KiB'"},
           Row{"9223372036854775808", ErrorCode::kOutOfRange, "is more than"},
           Row{"9000000000000000000k", ErrorCode::kOutOfRange, "is more than"},
       }) {
    INFO(text);
    const auto result = parse_token_count(text);
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().code == code);
    CHECK_THAT(result.error().message, Catch::Matchers::ContainsSubstring(std::string{message}));
  }
}

TEST_CASE("sizes are printed exactly and in the binary unit", "[core][size_text]") {
  CHECK(size_text(Bytes{0}) == "0 B");
  CHECK(size_text(Bytes{656}) == "656 B");
  CHECK(size_text(Bytes{1'023}) == "1,023 B");
  CHECK(size_text(Bytes{1'024}) == "1,024 B (1.00 KiB)");
  CHECK(size_text(Bytes{81'920}) == "81,920 B (80.00 KiB)");
  CHECK(size_text(Bytes{1'048'575}) == "1,048,575 B (1.00 MiB)");
  CHECK(size_text(Bytes{3'722'444'800}) == "3,722,444,800 B (3.47 GiB)");
  CHECK(size_text(Bytes{-3'722'444'800}) == "-3,722,444,800 B (-3.47 GiB)");
  CHECK(size_text(Bytes{kMax}) == "9,223,372,036,854,775,807 B (8,388,608.00 TiB)");
  CHECK(size_text(Bytes{std::numeric_limits<std::int64_t>::min()}) ==
        "-9,223,372,036,854,775,808 B (-8,388,608.00 TiB)");
}

TEST_CASE("arguments use the largest unit that divides", "[core][size_text]") {
  CHECK(size_argument(Bytes{0}) == "0B");
  CHECK(size_argument(Bytes{656}) == "656B");
  CHECK(size_argument(Bytes{3'722'444'800}) == "3550MiB");
  CHECK(size_argument(Bytes{85'899'345'920}) == "80GiB");
  CHECK(size_argument(Bytes{150'109'106'995}) == "150109106995B");
  CHECK(size_argument(Bytes{-2'097'152}) == "-2MiB");
}

TEST_CASE("an argument reads back to the same bytes", "[core][size_text][property]") {
  CHECK(rc::check([](std::uint64_t bits, std::uint8_t shift) {
    const auto bytes = static_cast<std::int64_t>((bits >> (1 + shift % 63)) << (shift % 41));
    RC_PRE(bytes >= 0);
    const auto again = parse_size(size_argument(Bytes{bytes}));
    RC_ASSERT(again.has_value());
    RC_ASSERT(*again == Bytes{bytes});
    RC_ASSERT(*parse_size(std::to_string(bytes)) == Bytes{bytes});
  }));
}

TEST_CASE("a decimal fraction is rounded down exactly", "[core][size_text][property]") {
  CHECK(rc::check([] {
    // Up to 9 digits: the product with 2^40 fits into 128 bits.
    const auto digits = *rc::gen::inRange<std::int64_t>(0, 1'000'000'000);
    const auto whole = *rc::gen::inRange<std::int64_t>(0, 1'000'000);
    const std::string padded = std::to_string(1'000'000'000 + digits).substr(1);
    const auto size = parse_size(std::to_string(whole) + "." + padded + "TiB");
    __extension__ using Wide = __int128;
    const Wide exact = ((Wide{whole} * 1'000'000'000 + digits) << 40) / 1'000'000'000;
    RC_ASSERT(size.has_value());
    RC_ASSERT(Wide{size->count()} == exact);
  }));
}

}  // namespace
}  // namespace kvpool
