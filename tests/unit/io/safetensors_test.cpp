// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/safetensors.hpp>

#include "support/catch.hpp"
#include "support/safetensors_files.hpp"

#include <string>

namespace kvpool {
namespace {

using testing_support::header_of;
using testing_support::ScratchFolder;
using testing_support::with_length;

/// The error of a header of this text before `data` bytes.
Error refused(const std::string& text, std::int64_t data) {
  const std::string head = with_length(text);
  const auto tensors = io::parse_safetensors_header(
      head, Bytes{static_cast<std::int64_t>(head.size()) + data}, "w.safetensors");
  REQUIRE(!tensors.has_value());
  CHECK(tensors.error().code == ErrorCode::kInvalidArgument);
  CHECK(tensors.error().file == "w.safetensors");
  return tensors.error();
}

TEST_CASE("a header lists tensors in the order of their data", "[io]") {
  const std::string head =
      with_length(R"({"b":{"dtype":"F8_E4M3","shape":[3,4],"data_offsets":[8,20]},)"
                  R"("__metadata__":{"format":"pt"},)"
                  R"("a":{"shape":[2,2],"data_offsets":[0,8],"dtype":"BF16"},)"
                  R"("s":{"dtype":"F32","shape":[],"data_offsets":[20,24]},)"
                  R"("none":{"dtype":"I64","shape":[0,7],"data_offsets":[24,24]}}   )");
  const auto tensors = io::parse_safetensors_header(
      head, Bytes{static_cast<std::int64_t>(head.size()) + 24}, "w.safetensors");
  REQUIRE(tensors.has_value());
  REQUIRE(tensors->size() == 4);
  CHECK((*tensors)[0] == io::StoredTensor{"a", "BF16", {2, 2}, Bytes{8}});
  CHECK((*tensors)[1] == io::StoredTensor{"b", "F8_E4M3", {3, 4}, Bytes{12}});
  CHECK((*tensors)[2] == io::StoredTensor{"s", "F32", {}, Bytes{4}});
  CHECK((*tensors)[3] == io::StoredTensor{"none", "I64", {0, 7}, Bytes{0}});
}

TEST_CASE("every element type has its bits", "[io]") {
  struct Line {
    const char* dtype;
    std::int64_t bytes;  // of 8 elements
  };
  const auto line = GENERATE(
      values<Line>({{"BOOL", 8},    {"U8", 8},   {"I8", 8},   {"F8_E4M3", 8}, {"F8_E5M2", 8},
                    {"F8_E8M0", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16},    {"BF16", 16},
                    {"I32", 32},    {"U32", 32}, {"F32", 32}, {"I64", 64},    {"U64", 64},
                    {"F64", 64},    {"C64", 64}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}}));
  INFO(line.dtype);
  const std::string head = header_of({{"w", line.dtype, {8}, line.bytes}});
  const auto tensors = io::parse_safetensors_header(
      head, Bytes{static_cast<std::int64_t>(head.size()) + line.bytes}, "w");
  REQUIRE(tensors.has_value());
  CHECK(tensors->front().bytes == Bytes{line.bytes});
}

TEST_CASE("what a header must not say is refused with file, key and value", "[io]") {
  struct Line {
    const char* text;
    std::int64_t data;
    const char* key;
    const char* message;
  };
  const auto line = GENERATE(values<Line>({
      {R"({"w":{"dtype":"BF15","shape":[2],"data_offsets":[0,4]}})", 4, "w.dtype",
       "no element type"},
      {R"({"w":{"dtype":"BF16","shape":[3],"data_offsets":[0,4]}})", 4, "w.data_offsets",
       "they give 6"},
      {R"({"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})", 2, "w.data_offsets",
       "is the file cut?"},
      {R"({"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})", 6, "", "cover 4"},
      {R"({"w":{"dtype":"BF16","shape":[2],"data_offsets":[4,0]}})", 4, "w.data_offsets",
       "ends before it begins"},
      {R"({"w":{"dtype":"BF16","shape":[2],"data_offsets":[2,6]}})", 6, "w.data_offsets", "gap"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
       R"("w":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
       6, "w.data_offsets", "overlaps"},
      {R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
       R"("w":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       8, "w", "twice"},
      {R"({"w":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4, "w.shape", "0 to 2^48"},
      {R"({"w":{"dtype":"U8","shape":[4.5],"data_offsets":[0,4]}})", 4, "w.shape", "not what"},
      {R"({"w":{"dtype":"U8","shape":["4"],"data_offsets":[0,4]}})", 4, "w.shape", "not what"},
      {R"({"w":{"dtype":"U8","shape":[281474976710656,281474976710656,281474976710656],)"
       R"("data_offsets":[0,4]}})",
       4, "w.data_offsets", "does not agree"},
      {R"({"w":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,4]}})", 4, "w.shape",
       "not what"},
      {R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4,8]}})", 4, "w.data_offsets",
       "must be two"},
      {R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0]}})", 4, "w.data_offsets",
       "must be two"},
      {R"({"w":{"dtype":"U8","shape":[4]}})", 4, "w", "lacks data_offsets"},
      {R"({"w":{"dtype":"U8","data_offsets":[0,4]}})", 4, "w", "lacks shape"},
      {R"({"w":{"shape":[4],"data_offsets":[0,4]}})", 4, "w", "lacks dtype"},
      {R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}})", 4, "w", "no field"},
      {R"({"w":{"dtype":{},"shape":[4],"data_offsets":[0,4]}})", 4, "w.dtype", "not what"},
      {R"({"w":{"dtype":"U8","shape":[[4]],"data_offsets":[0,4]}})", 4, "w.shape", "not what"},
      {R"({"w":4})", 4, "w", "not what"},
      {R"({"__metadata__":{"a":{}}})", 0, "__metadata__", "not what"},
      {R"([])", 0, "", "must be an object"},
      {R"(7)", 0, "", "must be an object"},
      {R"({"w":)", 0, "", "not valid JSON"},
      {"", 0, "", "not valid JSON"},
  }));
  INFO(line.text);
  const Error error = refused(line.text, line.data);
  CHECK(error.key == line.key);
  CHECK_THAT(error.message, Catch::Contains(line.message));
}

TEST_CASE("a length that the file does not have is refused before anything is read", "[io]") {
  const auto parse = [](const std::string& head, std::int64_t size) {
    return io::parse_safetensors_header(head, Bytes{size}, "w.safetensors").error();
  };
  CHECK_THAT(parse("", 0).message, Catch::Contains("too short"));
  CHECK_THAT(parse("1234567", 7).message, Catch::Contains("too short"));
  CHECK(parse(std::string(8, '\xff'), 1'000'000).key == "header length");
  CHECK(parse("version https://git-lfs", 130).key == "header length");
  // 100,000,001 is above the format's limit, whatever the file has.
  CHECK(parse(std::string{"\x01\xe1\xf5\x05\0\0\0\0", 8}, std::int64_t{1} << 40).key ==
        "header length");
}

TEST_CASE("only the header of a file is read", "[io]") {
  const ScratchFolder folder{"safetensors"};
  folder.write_tensors("big.safetensors",
                       {{"w", "BF16", {1 << 20, 1 << 15}, std::int64_t{1} << 36}});
  const auto tensors = io::read_safetensors_header(folder.path("big.safetensors"));
  REQUIRE(tensors.has_value());
  CHECK(tensors->front().bytes == Bytes{68'719'476'736});
  CHECK(io::read_safetensors_header(folder.path("none")).error().code == ErrorCode::kNotFound);
  CHECK(io::read_safetensors_header(folder.path()).error().code == ErrorCode::kIo);
}

}  // namespace
}  // namespace kvpool
