// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/kv_dtype.hpp>
#include <kvpool/core/result.hpp>

#include "core/format.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpool::io::detail {

/// Words to choose from.
using Words = std::span<const std::string_view>;

/// `; did you mean 'page_sizes'?`, or the words to choose from when none is near.
[[nodiscard]] std::string advice(std::string_view word, Words known);

/// A message that says where in the file.
[[nodiscard]] std::string placed(const toml::source_position& position, std::string_view message);

/// Names a set of enumerators.
template <typename Enum, std::size_t kCount>
std::vector<std::string_view> names_of(const std::array<Enum, kCount>& values) {
  std::vector<std::string_view> names;
  names.reserve(kCount);
  for (const Enum value : values) {
    names.push_back(to_string(value));
  }
  return names;
}

/// Reads the keys of one table. The first error stays; later calls then do nothing.
class TableReader {
 public:
  /// @param name dotted name of the table, such as `kernel[0]`
  /// @param known every key that the table may have
  TableReader(const toml::table& table, std::string name, const std::string& file,
              std::optional<Error>& error, Words known)
      : table_{table}, name_{std::move(name)}, file_{file}, error_{error} {
    for (const auto& [key, value] : table_) {
      const std::string_view text = key.str();
      if (std::ranges::find(known, text) == known.end()) {
        fail(key.source().begin, text, "unknown key" + advice(text, known), format_excerpt(text));
        return;
      }
    }
  }

  /// The value of a key, or null when it is absent or there has been an error.
  [[nodiscard]] const toml::node* find(std::string_view key) const {
    return error_.has_value() ? nullptr : table_.get(key);
  }

  /// Keys without which a table makes no sense.
  void require(std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) {
      if (table_.get(key) == nullptr) {
        fail(table_.source().begin, key,
             fmt::format("missing: a row needs {}", fmt::join(keys, ", ")), "");
      }
    }
  }

  void read(std::string_view key, std::string& out) {
    if (const toml::node* node = find(key)) {
      if (const auto text = text_of(*node, key)) {
        out = *text;
      }
    }
  }

  void read(std::string_view key, bool& out) {
    if (const toml::node* node = find(key)) {
      if (const auto* value = node->as_boolean()) {
        out = value->get();
      } else {
        wrong_type(*node, key, "true or false");
      }
    }
  }

  void read(std::string_view key, std::int64_t& out) {
    if (const toml::node* node = find(key)) {
      out = integer_of(*node, key).value_or(out);
    }
  }

  void read(std::string_view key, std::optional<std::int64_t>& out) {
    if (const toml::node* node = find(key)) {
      out = integer_of(*node, key);
    }
  }

  void read(std::string_view key, std::vector<std::int64_t>& out) {
    each_element(key, "a list of whole numbers", [&](const toml::node& element) {
      if (const auto value = integer_of(element, key)) {
        out.push_back(*value);
      }
    });
  }

  void read(std::string_view key, std::vector<std::string>& out) {
    each_element(key, "a list of texts", [&](const toml::node& element) {
      if (auto text = text_of(element, key)) {
        out.push_back(*std::move(text));
      }
    });
  }

  void read(std::string_view key, std::vector<KvDtype>& out) {
    each_element(key, "a list of cache formats", [&](const toml::node& element) {
      if (const auto text = text_of(element, key)) {
        if (const auto dtype = parse_kv_dtype(*text)) {
          out.push_back(*dtype);
        } else {
          std::vector<std::string_view> known;
          for (const KvDtype format : all_kv_dtypes()) {
            known.push_back(to_string(format));
          }
          bad_word(element, key, *text, known);
        }
      }
    });
  }

  /// One enumerator, by name.
  template <typename Enum, std::size_t kCount>
  void read(std::string_view key, const std::array<Enum, kCount>& values, Enum& out) {
    if (const toml::node* node = find(key)) {
      out = enumerator_of(*node, key, values).value_or(out);
    }
  }

  /// A list of enumerators, by name.
  template <typename Enum, std::size_t kCount>
  void read(std::string_view key, const std::array<Enum, kCount>& values, std::vector<Enum>& out) {
    each_element(key, "a list of names", [&](const toml::node& element) {
      if (const auto value = enumerator_of(element, key, values)) {
        out.push_back(*value);
      }
    });
  }

  /// The table under a key, or null.
  const toml::table* table(std::string_view key) {
    const toml::node* node = find(key);
    if (node != nullptr && !node->is_table()) {
      wrong_type(*node, key, "a table");
      return nullptr;
    }
    return node == nullptr ? nullptr : node->as_table();
  }

  /// Dotted name of a key of this table.
  [[nodiscard]] std::string dotted(std::string_view key) const {
    return name_ + "." + format_excerpt(key);
  }

  void wrong_type(const toml::node& node, std::string_view key, std::string_view wanted) {
    fail(node.source().begin, key, fmt::format("needs {}", wanted), "");
  }

 private:
  void fail(const toml::source_position& position, std::string_view key, const std::string& message,
            std::string value) {
    if (!error_.has_value()) {
      error_ = Error{.code = ErrorCode::kInvalidArgument,
                     .message = placed(position, message),
                     .file = file_,
                     .key = dotted(key),
                     .value = std::move(value)};
    }
  }

  void bad_word(const toml::node& node, std::string_view key, std::string_view word, Words known) {
    fail(node.source().begin, key,
         fmt::format("'{}' is not known", format_excerpt(word)) + advice(word, known),
         format_excerpt(word));
  }

  std::optional<std::string> text_of(const toml::node& node, std::string_view key) {
    if (const auto* value = node.as_string()) {
      return value->get();
    }
    wrong_type(node, key, "a text");
    return std::nullopt;
  }

  std::optional<std::int64_t> integer_of(const toml::node& node, std::string_view key) {
    if (const auto* value = node.as_integer()) {
      return value->get();
    }
    wrong_type(node, key, "a whole number");
    return std::nullopt;
  }

  template <typename Enum, std::size_t kCount>
  std::optional<Enum> enumerator_of(const toml::node& node, std::string_view key,
                                    const std::array<Enum, kCount>& values) {
    const auto text = text_of(node, key);
    if (!text.has_value()) {
      return std::nullopt;
    }
    for (const Enum value : values) {
      if (*text == to_string(value)) {
        return value;
      }
    }
    bad_word(node, key, *text, names_of(values));
    return std::nullopt;
  }

  template <typename Visit>
  void each_element(std::string_view key, std::string_view wanted, const Visit& visit) {
    const toml::node* node = find(key);
    if (node == nullptr) {
      return;
    }
    if (!node->is_array()) {
      wrong_type(*node, key, wanted);
      return;
    }
    for (const toml::node& element : *node->as_array()) {
      if (!error_.has_value()) {
        visit(element);
      }
    }
  }

  const toml::table& table_;
  std::string name_;
  const std::string& file_;
  std::optional<Error>& error_;
};

}  // namespace kvpool::io::detail
