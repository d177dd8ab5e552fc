// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/io/allocations.hpp>

#include "json_reader.hpp"
#include "json_value.hpp"
#include "text_file.hpp"

#include <charconv>
#include <cstddef>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

namespace kvpool::io {
namespace {

using detail::Json;
using detail::JsonReader;
using detail::Limits;
using detail::Refused;

constexpr Limits kPositive{1, std::numeric_limits<std::int64_t>::max()};
constexpr Limits kNotNegative{0, std::numeric_limits<std::int64_t>::max()};

std::optional<std::uintptr_t> parse_hexadecimal(std::string_view text) {
  if (text.substr(0, 2) != "0x" && text.substr(0, 2) != "0X") {
    return std::nullopt;
  }
  text.remove_prefix(2);
  std::uintptr_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{value}
                                                                  : std::nullopt;
}

std::uintptr_t read_address(const JsonReader& object) {
  const std::string key = object.dotted("address");
  const Json* value = object.find("address");
  if (value == nullptr) {
    object.invalid(key, {}, "missing, needed for each allocation");
  }
  if (value->text() != nullptr) {
    const auto address = parse_hexadecimal(*value->text());
    if (!address.has_value()) {
      object.invalid(key, value->shortened(),
                     "must be a whole number, or text such as \"0x7f0000000000\"");
    }
    return *address;
  }
  // An address as a double may have lost its last digits.
  if (value->integer() == nullptr) {
    object.invalid(key, value->shortened(),
                   "must be a whole number, or text such as \"0x7f0000000000\" from 2^63 on");
  }
  return static_cast<std::uintptr_t>(object.to_integer(*value, key, kNotNegative));
}

Allocation read_allocation(const Json& element, const std::string& prefix,
                           const std::string& file) {
  const JsonReader object{element, prefix, file};
  for (const Json::Member& member : *element.object()) {
    if (member.key != "pool" && member.key != "address" && member.key != "bytes") {
      object.invalid(object.dotted(member.key), member.value.shortened(),
                     "no such key; an allocation has pool, address and bytes");
    }
  }
  const auto pool = object.text("pool");
  if (!pool.has_value() || pool->empty()) {
    object.invalid(object.dotted("pool"), {}, "missing, needed for each allocation");
  }
  return {.pool = *pool,
          .address = read_address(object),
          .bytes = Bytes{object.need_integer({"bytes"}, kPositive, "each allocation").value}};
}

}  // namespace

Result<std::vector<Allocation>> parse_allocations(std::string_view json, const std::string& file) {
  try {
    const auto document = detail::parse_json(json, file);
    if (!document) {
      return document.error();
    }
    const Json::Array* elements = document->array();
    if (elements == nullptr) {
      return Error{ErrorCode::kInvalidArgument,
                   "must be a list of {pool, address, bytes}, one for each allocation",
                   file,
                   {},
                   document->shortened()};
    }
    std::vector<Allocation> allocations;
    for (const Json& element : *elements) {
      const std::string name = "[" + std::to_string(allocations.size()) + "]";
      if (element.object() == nullptr) {
        return Error{ErrorCode::kInvalidArgument, "must be an object {pool, address, bytes}", file,
                     name, element.shortened()};
      }
      allocations.push_back(read_allocation(element, name + ".", file));
    }
    return allocations;
  } catch (const Refused& refused) {
    return refused.error;
  } catch (const std::exception& e) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string{"cannot be read as allocations: "} + e.what(),
                 file,
                 {},
                 {}};
  }
}

Result<std::vector<Allocation>> read_allocations(const std::string& path) {
  const auto text = detail::read_text_file(path);
  if (!text) {
    return text.error();
  }
  return parse_allocations(*text, path);
}

}  // namespace kvpool::io
