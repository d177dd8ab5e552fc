// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
// Deployment files of arbitrary bytes: what is read are options of `plan`, each with its place;
// everything else ends in an input error that names the file, with line and column where TOML was
// understood. With complaints asked for, single keys cost nothing but themselves.
#include "deployment_file.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

const std::string kName = "fuzz.toml";

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void check_error(const kvpool::Error& error) {
  require(!error.message.empty() && error.file == kName);
  require(error.message.starts_with("line "));
  require(error.code == kvpool::ErrorCode::kInvalidArgument ||
          error.code == kvpool::ErrorCode::kUnsupported);
}

void check_options(const kvpool::cli::Options& options) {
  for (const auto& [id, values] : options.values) {
    require(!values.empty() && kvpool::cli::option_spec(id).id == id);
    for (const kvpool::cli::GivenValue& value : values) {
      require(value.file == kName && value.place.starts_with("line "));
    }
  }
}

/// True when the whole file was read.
bool read(const std::string& text, std::vector<kvpool::Error>* complaints) {
  kvpool::cli::Options options;
  try {
    kvpool::cli::add_deployment_text(text, kName, options, complaints);
  } catch (const kvpool::cli::Failure& failure) {
    check_error(failure.error());
    return false;
  }
  check_options(options);
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{reinterpret_cast<const char*>(data), size};
  const bool whole = read(text, nullptr);
  std::vector<kvpool::Error> complaints;
  if (read(text, &complaints)) {
    require(whole == complaints.empty());
    for (const kvpool::Error& complaint : complaints) {
      check_error(complaint);
    }
  } else {
    require(!whole);
  }
  return 0;
}
