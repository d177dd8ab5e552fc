// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/capability/decision.hpp>
#include <kvpool/core/result.hpp>

#include <iostream>
#include <string_view>

namespace example {

/// What an example says about kvpool. The example is a test: it fails when a claim is wrong.
class Claims {
 public:
  /// Prints the claim and whether it is true.
  void claim(bool is_true, std::string_view what) {
    std::cout << (is_true ? "  true: " : "  WRONG: ") << what << '\n';
    wrong_ += is_true ? 0 : 1;
  }

  /// 0 if every claim was true: the exit code of `main`.
  [[nodiscard]] int exit_code() const { return wrong_ == 0 ? 0 : 1; }

 private:
  int wrong_ = 0;
};

/// Prints an error with the place it is about; the exit code of `main`.
inline int fail(const kvpool::Error& error) {
  std::cout << kvpool::to_string(error.code) << ": ";
  for (const std::string_view place : {std::string_view{error.file}, std::string_view{error.key}}) {
    std::cout << place << (place.empty() ? "" : ": ");
  }
  std::cout << error.message << '\n';
  return 1;
}

/// Prints what was refused; the exit code of `main`.
inline int fail(const kvpool::Refusal& refusal) {
  std::cout << refusal.id << ": " << refusal.what << "; would work: " << refusal.least_that_works
            << '\n';
  return 1;
}

}  // namespace example
