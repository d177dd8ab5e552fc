// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "io/toml_table.hpp"

namespace kvpool::io::detail {

std::string placed(const toml::source_position& position, std::string_view message) {
  return fmt::format("line {}, column {}: {}", position.line, position.column, message);
}

}  // namespace kvpool::io::detail
