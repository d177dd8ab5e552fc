// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>

#include <exception>
#include <string>
#include <utility>

namespace kvpool::cli {

/// What the process ends with.
enum class ExitCode {
  kFits = 0,        ///< it fits; verify: it agrees
  kDoesNotFit = 1,  ///< bytes are missing; verify: it does not agree
  kUsage = 2,       ///< the command line is wrong
  kBadInput = 3,    ///< a file is bad, or something in it or asked for is not supported
  kDeviceOrIo = 4,  ///< a device, reading or writing failed
};

/// Exit code for an error that the library returned.
[[nodiscard]] constexpr ExitCode exit_code_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kDevice:
    case ErrorCode::kIo:
    case ErrorCode::kInternal: return ExitCode::kDeviceOrIo;
    default: return ExitCode::kBadInput;
  }
}

/// Ends a command. Thrown inside the program and caught in `main`, never by the library.
class Failure : public std::exception {
 public:
  /// Ends with `exit` because of `error`.
  Failure(ExitCode exit, Error error) : exit_{exit}, error_{std::move(error)} {}
  /// Ends because of an error of the library.
  explicit Failure(Error error) : Failure{exit_code_of(error.code), std::move(error)} {}

  /// The exit code.
  [[nodiscard]] ExitCode exit() const noexcept { return exit_; }
  /// What happened.
  [[nodiscard]] const Error& error() const noexcept { return error_; }
  /// The message alone.
  [[nodiscard]] const char* what() const noexcept override { return error_.message.c_str(); }

 private:
  ExitCode exit_;
  Error error_;
};

/// A wrong command line.
[[nodiscard]] inline Failure usage_failure(std::string message) {
  return {ExitCode::kUsage, Error{ErrorCode::kInvalidArgument, std::move(message)}};
}

/// The value of a result, or its error thrown as a `Failure`.
template <typename T>
[[nodiscard]] T value_or_fail(Result<T>&& result) {
  if (!result) {
    throw Failure{std::move(result).error()};
  }
  return std::move(result).value();
}

}  // namespace kvpool::cli
