// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>

#include "json_value.hpp"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kvpool::io::detail {

/// Thrown by readers inside `io` and turned into a `Result` before it can leave.
struct Refused {
  /// What the caller gets.
  Error error;
};

/// Inclusive domain of an integer field.
struct Limits {
  /// Smallest value accepted.
  std::int64_t low = 0;
  /// Largest value accepted.
  std::int64_t high = 0;
};

/// Domains that keep every product downstream within 64 bits, or within reach of `CheckedInt`.
namespace limits {
inline constexpr Limits kLayers{1, 100'000};
inline constexpr Limits kLayersOrNone{0, 100'000};
inline constexpr Limits kHeads{1, 65'536};
inline constexpr Limits kDim{1, 1'048'576};
inline constexpr Limits kDimOrNone{0, 1'048'576};
inline constexpr Limits kKernel{1, 4'096};
inline constexpr Limits kExperts{0, 1'048'576};
inline constexpr Limits kLength{1, std::int64_t{1} << 40};
inline constexpr Limits kVocabulary{1, std::int64_t{1} << 32};
}  // namespace limits

/// A value found under one of several spellings.
template <typename T>
struct Named {
  /// The value.
  T value{};
  /// Dotted key that it stands under.
  std::string key;
};

/// Typed access to an object, or to several laid over each other (the first one that has a key
/// wins). null counts as absent. Whatever has the wrong type or is out of its domain is `Refused`
/// with file, dotted key and value.
class JsonReader {
 public:
  /// Reads one object. @pre `object` outlives the reader
  JsonReader(const Json& object, std::string prefix, std::string file);

  /// Lays another object over this one.
  void overlay(const Json& object, std::string prefix);

  /// The value under `key`, if present and not null.
  [[nodiscard]] const Json* find(std::string_view key) const;
  /// As `find`, for looking over keys whose meaning is not asked: not recorded.
  [[nodiscard]] const Json* peek(std::string_view key) const noexcept;
  /// True when `key` is present and not null.
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  /// True when `key` is present, even as null.
  [[nodiscard]] bool mentions(std::string_view key) const;
  /// From now on, keys that are asked for go into `keys`; of this reader and its copies, not of
  /// readers of nested objects. @pre `keys` outlives them
  void record_into(std::set<std::string, std::less<>>& keys) noexcept { asked_ = &keys; }
  /// Names of all keys, of every object; null ones too.
  [[nodiscard]] std::vector<std::string_view> keys() const;
  /// The key as it stands in the file, with the prefix of the object that has it.
  [[nodiscard]] std::string dotted(std::string_view key) const;
  /// File name for errors.
  [[nodiscard]] const std::string& file() const noexcept { return file_; }

  /// The first of `keys` that is present, as a whole number within `limits`.
  [[nodiscard]] std::optional<Named<std::int64_t>> integer(
      std::initializer_list<std::string_view> keys, Limits limits) const;
  /// As `integer`; refused when all are absent. `purpose` completes "needed for ...".
  [[nodiscard]] Named<std::int64_t> need_integer(std::initializer_list<std::string_view> keys,
                                                 Limits limits, std::string_view purpose) const;
  /// As `integer`, without the key.
  [[nodiscard]] std::int64_t integer_or(std::initializer_list<std::string_view> keys, Limits limits,
                                        std::int64_t otherwise) const;
  /// The boolean under `key`, if present.
  [[nodiscard]] std::optional<bool> boolean(std::string_view key) const;
  /// The text under `key`, if present.
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  /// The list under `key`, if present; null otherwise.
  [[nodiscard]] const Json::Array* list(std::string_view key) const;
  /// Integers of a list, if present.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view key,
                                                                  Limits limits) const;
  /// Texts of a list, if present.
  [[nodiscard]] std::optional<std::vector<std::string>> texts(std::string_view key) const;
  /// The object under `key`, if present.
  [[nodiscard]] std::optional<JsonReader> child(std::string_view key) const;

  /// Reads `value`, found under `key`, as a whole number.
  [[nodiscard]] std::int64_t to_integer(const Json& value, const std::string& key,
                                        Limits limits) const;

  /// Refuses a value that is malformed or out of its domain.
  [[noreturn]] void invalid(const std::string& key, const std::string& value,
                            std::string message) const;
  /// Refuses something that is not understood or contradicts itself.
  [[noreturn]] void unsupported(const std::string& key, const std::string& value,
                                std::string message) const;

 private:
  struct Layer {
    const Json* object = nullptr;
    std::string prefix;
  };
  [[nodiscard]] const Layer* owner(std::string_view key) const noexcept;

  void record(std::string_view key) const;

  std::vector<Layer> layers_;
  std::string file_;
  std::set<std::string, std::less<>>* asked_ = nullptr;
};

}  // namespace kvpool::io::detail
