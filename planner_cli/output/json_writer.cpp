// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "output/json_writer.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace kvpool::cli {
namespace {

constexpr std::uint32_t kReplacement = 0xFFFD;

/// Takes one code point from the front of `text`; U+FFFD for a byte that starts none.
[[nodiscard]] std::uint32_t take_code_point(std::string_view& text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  std::size_t length = 1;
  std::uint32_t point = lead;
  std::uint32_t least = 0;
  if (lead >= 0xC2 && lead < 0xE0) {
    length = 2, point = lead & 0x1FU, least = 0x80;
  } else if (lead >= 0xE0 && lead < 0xF0) {
    length = 3, point = lead & 0x0FU, least = 0x800;
  } else if (lead >= 0xF0 && lead < 0xF5) {
    length = 4, point = lead & 0x07U, least = 0x10000;
  } else if (lead >= 0x80) {
    length = 0;
  }
  bool valid = length > 0 && length <= text.size();
  for (std::size_t i = 1; valid && i < length; ++i) {
    valid = (byte(i) & 0xC0U) == 0x80U;
    point = (point << 6U) | (byte(i) & 0x3FU);
  }
  valid = valid && point >= least && point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF);
  text.remove_prefix(valid ? length : 1);
  return valid ? point : kReplacement;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out{'"'};
  while (!text.empty()) {
    const std::uint32_t point = take_code_point(text);
    if (point == '"' || point == '\\') {
      out += '\\';
      out += static_cast<char>(point);
    } else if (point >= 0x20 && point < 0x7F) {
      out += static_cast<char>(point);
    } else if (point < 0x10000) {
      out += fmt::format("\\u{:04x}", point);
    } else {
      const std::uint32_t rest = point - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10U), 0xDC00 + (rest & 0x3FFU));
    }
  }
  return out + '"';
}

void JsonWriter::member(std::string_view key) {
  if (depth_ > 0) {
    out_ += first_ ? "\n" : ",\n";
    out_.append(2 * depth_, ' ');
  }
  first_ = false;
  if (!key.empty()) {
    out_ += json_string(key) + ": ";
  }
}

void JsonWriter::close(char bracket) {
  --depth_;
  if (!first_) {
    out_ += '\n';
    out_.append(2 * depth_, ' ');
  }
  out_ += bracket;
  first_ = false;
}

JsonWriter& JsonWriter::begin_object(std::string_view key) {
  member(key);
  out_ += '{';
  ++depth_;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::end_object() {
  close('}');
  return *this;
}

JsonWriter& JsonWriter::begin_array(std::string_view key) {
  member(key);
  out_ += '[';
  ++depth_;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  close(']');
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view key, std::string_view value) {
  member(key);
  out_ += json_string(value);
  return *this;
}

JsonWriter& JsonWriter::number(std::string_view key, std::int64_t value) {
  member(key);
  out_ += std::to_string(value);
  return *this;
}

JsonWriter& JsonWriter::boolean(std::string_view key, bool value) {
  member(key);
  out_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view key, std::string_view json) {
  member(key);
  out_ += json;
  return *this;
}

JsonWriter& JsonWriter::numbers(std::string_view key, const std::vector<std::int64_t>& values) {
  member(key);
  out_ += fmt::format("[{}]", fmt::join(values, ", "));
  return *this;
}

JsonWriter& JsonWriter::texts(std::string_view key, const std::vector<std::string>& values) {
  member(key);
  out_ += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    out_ += (i == 0 ? "" : ", ") + json_string(values[i]);
  }
  out_ += ']';
  return *this;
}

JsonWriter& JsonWriter::error(const Error& error) {
  return begin_object("error")
      .text("file", error.file)
      .text("key", error.key)
      .text("value", error.value)
      .text("message", error.message)
      .end_object();
}

}  // namespace kvpool::cli
