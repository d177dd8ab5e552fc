// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace kvpool {

/// Why a call failed. The set is closed; `docs/errors.md` says what to do about each.
enum class ErrorCode {
  kInvalidArgument,  ///< a value is malformed or out of its domain
  kUnsupported,      ///< understood, but not offered (by this build, backend or model)
  kNotFound,         ///< a file, key or name does not exist
  kOutOfRange,       ///< a size does not fit into 64 bits, or an index into its table
  kExhausted,        ///< memory, a budget or a limit is used up
  kDevice,           ///< a device or its driver reported an error
  kIo,               ///< reading or writing a file failed
  kInternal,         ///< an invariant of kvpool does not hold: a bug
};

/// Stable lower-case name of a code, as printed and as used in JSON.
[[nodiscard]] constexpr std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kOutOfRange: return "out_of_range";
    case ErrorCode::kExhausted: return "exhausted";
    case ErrorCode::kDevice: return "device";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kInternal: return "internal";
  }
  return "internal";
}

/// A failure as a value. `message` names the value, its unit, the limit and the remedy, in lower
/// case without a trailing stop. For input errors `file`, `key` and `value` say where it stands.
struct Error {
  /// Why.
  ErrorCode code = ErrorCode::kInternal;
  /// What happened and what to do about it.
  std::string message{};
  /// File the offending value was read from, or empty.
  std::string file = {};
  /// Dotted key of the offending value, or empty.
  std::string key = {};
  /// The offending value as text, shortened, or empty.
  std::string value = {};

  /// Field by field.
  friend bool operator==(const Error&, const Error&) = default;
};

/// One line for people: `file: key: message (value)`, empty parts left out.
[[nodiscard]] std::string to_string(const Error& error);

/// Either a `T` or an `Error`, with the member names of `std::expected`.
template <typename T>
class [[nodiscard]] Result {
 public:
  /// Success.
  Result(T value) : state_{std::in_place_index<0>, std::move(value)} {}  // NOLINT: converts
  /// Failure.
  Result(Error error) : state_{std::in_place_index<1>, std::move(error)} {}  // NOLINT: converts

  /// True on success.
  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  /// True on success.
  [[nodiscard]] explicit operator bool() const noexcept { return has_value(); }

  /// The value. @pre has_value()
  [[nodiscard]] T& value() & noexcept { return *std::get_if<0>(&state_); }
  /// The value. @pre has_value()
  [[nodiscard]] const T& value() const& noexcept { return *std::get_if<0>(&state_); }
  /// The value, moved out. @pre has_value()
  [[nodiscard]] T&& value() && noexcept { return std::move(*std::get_if<0>(&state_)); }
  /// The value. @pre has_value()
  [[nodiscard]] T& operator*() & noexcept { return value(); }
  /// The value. @pre has_value()
  [[nodiscard]] const T& operator*() const& noexcept { return value(); }
  /// The value, moved out. @pre has_value()
  [[nodiscard]] T&& operator*() && noexcept { return std::move(*this).value(); }
  /// Member of the value. @pre has_value()
  [[nodiscard]] T* operator->() noexcept { return std::get_if<0>(&state_); }
  /// Member of the value. @pre has_value()
  [[nodiscard]] const T* operator->() const noexcept { return std::get_if<0>(&state_); }

  /// The failure. @pre !has_value()
  [[nodiscard]] const Error& error() const& noexcept { return *std::get_if<1>(&state_); }
  /// The failure, moved out. @pre !has_value()
  [[nodiscard]] Error&& error() && noexcept { return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value, or an `Error`.
template <>
class [[nodiscard]] Result<void> {
 public:
  /// Success.
  Result() = default;
  /// Failure.
  Result(Error error) : error_{std::move(error)} {}  // NOLINT: converts

  /// True on success.
  [[nodiscard]] bool has_value() const noexcept { return !error_.has_value(); }
  /// True on success.
  [[nodiscard]] explicit operator bool() const noexcept { return has_value(); }
  /// The failure. @pre !has_value()
  [[nodiscard]] const Error& error() const& noexcept { return *error_; }
  /// The failure, moved out. @pre !has_value()
  [[nodiscard]] Error&& error() && noexcept { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace kvpool
