// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/core/result.hpp>

#include <fmt/format.h>

namespace kvpool {

std::string to_string(const Error& error) {
  std::string text;
  for (const std::string* part : {&error.file, &error.key}) {
    if (!part->empty()) {
      text += fmt::format("{}: ", *part);
    }
  }
  text += error.message;
  return error.value.empty() ? text : fmt::format("{} ({})", text, error.value);
}

}  // namespace kvpool
