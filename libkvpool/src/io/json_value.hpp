// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvpool::io::detail {

/// A JSON value as read from untrusted text. Nesting is bounded, members are sorted by key, and of
/// a key that occurs twice the last one counts.
class Json {
 public:
  /// One key of an object with its value.
  struct Member;
  /// Elements in order.
  using Array = std::vector<Json>;
  /// Members sorted by key.
  using Object = std::vector<Member>;
  /// What a value can be; whole numbers within 64 bits are integers, all others doubles.
  using Value =
      std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object>;

  /// null.
  Json() noexcept;
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  /// Makes this value a boolean, number, text, list or object. (No constructor takes a `Value`:
  /// GCC 12 takes the move of a local variant for a use of uninitialised memory.)
  template <typename T>
  void set(T value) {
    value_.template emplace<T>(std::move(value));
  }

  /// True for null.
  [[nodiscard]] bool is_null() const noexcept {
    return std::holds_alternative<std::monostate>(value_);
  }
  /// The boolean, or null.
  [[nodiscard]] const bool* boolean() const noexcept { return std::get_if<bool>(&value_); }
  /// The integer, or null.
  [[nodiscard]] const std::int64_t* integer() const noexcept {
    return std::get_if<std::int64_t>(&value_);
  }
  /// The double, or null; also null for integers.
  [[nodiscard]] const double* real() const noexcept { return std::get_if<double>(&value_); }
  /// The text, or null.
  [[nodiscard]] const std::string* text() const noexcept {
    return std::get_if<std::string>(&value_);
  }
  /// The elements, or null.
  [[nodiscard]] const Array* array() const noexcept { return std::get_if<Array>(&value_); }
  /// The members, or null.
  [[nodiscard]] const Object* object() const noexcept { return std::get_if<Object>(&value_); }
  /// The member of an object; null when there is none, or when this is no object.
  [[nodiscard]] const Json* find(std::string_view key) const noexcept;

  /// The value as text for a message: at most about 60 characters.
  [[nodiscard]] std::string shortened() const;

 private:
  Value value_;
};

struct Json::Member {
  /// The key.
  std::string key;
  /// Its value.
  Json value;
};

// Only here are all alternatives of the variant complete.
inline Json::Json() noexcept = default;
inline Json::Json(const Json& other) = default;
inline Json::Json(Json&& other) noexcept = default;
inline Json& Json::operator=(const Json& other) = default;
inline Json& Json::operator=(Json&& other) noexcept = default;
inline Json::~Json() = default;

/// Deepest nesting that `parse_json` accepts.
inline constexpr std::size_t kMaxJsonDepth = 64;
/// Most values in one document.
inline constexpr std::size_t kMaxJsonValues = 2'000'000;

/// Text cut to about `limit` bytes at a character's boundary, control characters replaced.
[[nodiscard]] std::string shorten(std::string_view text, std::size_t limit = 60);

/// Reads one document. Bare `Infinity`, `-Infinity` and `NaN` become strings of that spelling, so
/// that a field that needs a number refuses them and all others can ignore them.
/// @param file name used in errors
[[nodiscard]] Result<Json> parse_json(std::string_view text, const std::string& file);

}  // namespace kvpool::io::detail
