// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::cli {

/// Writes one JSON document with a fixed order of keys, two spaces a level. Text that is not ASCII
/// is escaped; bytes that are no UTF-8 become U+FFFD.
class JsonWriter {
 public:
  /// Opens an object, as a member when `key` is given.
  JsonWriter& begin_object(std::string_view key = {});
  /// Closes the object.
  JsonWriter& end_object();
  /// Opens an array member.
  JsonWriter& begin_array(std::string_view key);
  /// Closes the array.
  JsonWriter& end_array();
  /// A text member; without a key an array element.
  JsonWriter& text(std::string_view key, std::string_view value);
  /// A whole number.
  JsonWriter& number(std::string_view key, std::int64_t value);
  /// True or false.
  JsonWriter& boolean(std::string_view key, bool value);
  /// A value that is JSON already, on one line.
  JsonWriter& raw(std::string_view key, std::string_view json);
  /// An array of whole numbers.
  JsonWriter& numbers(std::string_view key, const std::vector<std::int64_t>& values);
  /// An array of texts.
  JsonWriter& texts(std::string_view key, const std::vector<std::string>& values);
  /// An `error` member with file, key, value and message.
  JsonWriter& error(const Error& error);
  /// The document, with a line break at the end. @pre everything is closed
  [[nodiscard]] std::string document() const { return out_ + "\n"; }

 private:
  void member(std::string_view key);
  void close(char bracket);

  std::string out_;
  std::size_t depth_ = 0;
  bool first_ = true;
};

/// `text` as a JSON string, quotes included.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace kvpool::cli
