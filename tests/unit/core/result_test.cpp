// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/core/result.hpp>

#include "support/catch.hpp"

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace kvpool {
namespace {

static_assert(!std::is_convertible_v<Result<int>, bool>);
static_assert(!std::is_convertible_v<Result<int>, int>);

TEST_CASE("a result holds a value or an error", "[core][result]") {
  Result<std::string> good{std::string{"page"}};
  REQUIRE(good.has_value());
  CHECK(static_cast<bool>(good));
  CHECK(*good == "page");
  CHECK(good->size() == 4);
  good->push_back('s');
  CHECK(std::as_const(good).value() == "pages");
  CHECK(std::move(good).value() == "pages");

  const Result<std::string> bad{Error{.code = ErrorCode::kNotFound, .message = "no such file"}};
  REQUIRE_FALSE(bad.has_value());
  CHECK(bad.error() == Error{.code = ErrorCode::kNotFound, .message = "no such file"});
}

TEST_CASE("a value that only moves is moved out", "[core][result]") {
  Result<std::unique_ptr<int>> result{std::make_unique<int>(64)};
  const std::unique_ptr<int> taken = *std::move(result);
  CHECK(*taken == 64);
}

TEST_CASE("success without a value is the default", "[core][result]") {
  CHECK(Result<void>{}.has_value());
  const Result<void> bad{Error{.code = ErrorCode::kIo, .message = "disk full"}};
  REQUIRE_FALSE(bad.has_value());
  CHECK(bad.error().message == "disk full");
}

TEST_CASE("codes have stable names", "[core][result]") {
  CHECK(to_string(ErrorCode::kInvalidArgument) == "invalid_argument");
  CHECK(to_string(ErrorCode::kUnsupported) == "unsupported");
  CHECK(to_string(ErrorCode::kNotFound) == "not_found");
  CHECK(to_string(ErrorCode::kOutOfRange) == "out_of_range");
  CHECK(to_string(ErrorCode::kExhausted) == "exhausted");
  CHECK(to_string(ErrorCode::kDevice) == "device");
  CHECK(to_string(ErrorCode::kIo) == "io");
  CHECK(to_string(ErrorCode::kInternal) == "internal");
}

TEST_CASE("errors are equal when every field is", "[core][result]") {
  const Error error{
      .code = ErrorCode::kInvalidArgument, .message = "m", .file = "f", .key = "k", .value = "v"};
  Error other = error;
  CHECK(error == other);
  other.key.clear();
  CHECK_FALSE(error == other);
}

}  // namespace
}  // namespace kvpool
