// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/allocations.hpp>

#include "support/catch.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::io {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("allocations are read with addresses as numbers and as hexadecimal text") {
  const auto read = parse_allocations(R"([
    {"pool": "target", "address": 140737488355328, "bytes": 2097152},
    {"bytes": 81920, "address": "0x7f0000000100", "pool": "draft"},
    {"pool": "high", "address": "0xFFFFFFFFFFFFFF00", "bytes": 1}])",
                                      "a.json");
  REQUIRE(read.has_value());
  CHECK(*read == std::vector<Allocation>{{"target", 0x800000000000, Bytes{2'097'152}},
                                         {"draft", 0x7f0000000100, Bytes{81'920}},
                                         {"high", 0xFFFFFFFFFFFFFF00, Bytes{1}}});
  CHECK(parse_allocations("[]", "a.json")->empty());
}

TEST_CASE("malformed allocations are refused with the key") {
  struct Case {
    std::string_view text;
    std::string_view key;
    std::string_view message;
  };
  const std::vector<Case> cases{
      {"{}", "", "must be a list"},
      {"[1]", "[0]", "must be an object"},
      {"[", "[0]", "not valid JSON"},
      {R"([{"address": 0, "bytes": 1}])", "[0].pool", "missing"},
      {R"([{"pool": "", "address": 0, "bytes": 1}])", "[0].pool", "missing"},
      {R"([{"pool": 1, "address": 0, "bytes": 1}])", "[0].pool", "must be text"},
      {R"([{"pool": "t", "bytes": 1}])", "[0].address", "missing"},
      {R"([{"pool": "t", "address": -1, "bytes": 1}])", "[0].address", "whole number"},
      {R"([{"pool": "t", "address": 1.5, "bytes": 1}])", "[0].address", "whole number"},
      {R"([{"pool": "t", "address": 18446744073709551360, "bytes": 1}])", "[0].address",
       "from 2^63 on"},
      {R"([{"pool": "t", "address": "7f00", "bytes": 1}])", "[0].address", "0x7f"},
      {R"([{"pool": "t", "address": "0x", "bytes": 1}])", "[0].address", "0x7f"},
      {R"([{"pool": "t", "address": "0x1g", "bytes": 1}])", "[0].address", "0x7f"},
      {R"([{"pool": "t", "address": "0x10000000000000000", "bytes": 1}])", "[0].address", "0x7f"},
      {R"([{"pool": "t", "address": 0}])", "[0].bytes", "missing"},
      {R"([{"pool": "t", "address": 0, "bytes": 0}])", "[0].bytes", "whole number from 1"},
      {R"([{"pool": "t", "address": 0, "bytes": 1e300}])", "[0].bytes", "whole number"},
      {R"([{"pool": "t", "address": 0, "bytes": 1}, {"pool": "t", "adress": 0, "bytes": 1}])",
       "[1].adress", "no such key"},
  };
  for (const Case& c : cases) {
    INFO(c.text);
    const auto read = parse_allocations(c.text, "a.json");
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code == ErrorCode::kInvalidArgument);
    CHECK(read.error().file == "a.json");
    CHECK(read.error().key == c.key);
    CHECK_THAT(read.error().message, ContainsSubstring(std::string{c.message}));
  }
  CHECK_FALSE(parse_allocations(std::string(100'000, '['), "a.json").has_value());
}

TEST_CASE("allocations are read from a file") {
  const std::string path =
      (std::filesystem::temp_directory_path() / "kvpool_allocations_test.json").string();
  std::ofstream{path} << R"([{"pool": "target", "address": "0x100", "bytes": 5}])";
  const auto read = read_allocations(path);
  std::filesystem::remove(path);
  REQUIRE(read.has_value());
  CHECK(*read == std::vector<Allocation>{{"target", 256, Bytes{5}}});
  CHECK(read_allocations(path).error().code == ErrorCode::kNotFound);
  CHECK(read_allocations(path).error().file == path);
}

}  // namespace
}  // namespace kvpool::io
