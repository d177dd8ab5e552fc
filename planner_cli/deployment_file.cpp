// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "deployment_file.hpp"

#include "spelling.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace kvpool::cli {
namespace {

namespace fs = std::filesystem;

/// Larger files are none that a person wrote.
constexpr std::uintmax_t kLargestFile = 1U << 20U;

[[nodiscard]] std::string place(const toml::source_position& position) {
  return fmt::format("line {}, column {}", position.line, position.column);
}

[[noreturn]] void fail_at(const std::string& path, const std::string& where, std::string key,
                          std::string message, ErrorCode code = ErrorCode::kInvalidArgument) {
  throw Failure{ExitCode::kBadInput,
                Error{code, (where.empty() ? "" : where + ": ") + std::move(message), path,
                      std::move(key), ""}};
}

[[nodiscard]] std::string read_text(const std::string& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) {
    fail_at(path, "", "", "there is no such deployment file", ErrorCode::kNotFound);
  }
  if (fs::file_size(path, failed) > kLargestFile || failed) {
    fail_at(path, "", "", "a deployment file has at most 1 MiB");
  }
  std::ifstream file{path, std::ios::binary};
  std::string text{std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
  if (!file) {
    throw Failure{Error{ErrorCode::kIo, "the deployment file could not be read", path, "", ""}};
  }
  return text;
}

/// The text that the command line would have had for a scalar.
[[nodiscard]] std::string text_of(const toml::node& node, const std::string& path,
                                  const std::string& where, const std::string& key) {
  if (const auto* text = node.as_string()) {
    return text->get();
  }
  if (const auto* number = node.as_integer()) {
    return fmt::format("{}", number->get());
  }
  if (const auto* number = node.as_floating_point()) {
    return fmt::format("{}", number->get());
  }
  if (const auto* flag = node.as_boolean()) {
    return flag->get() ? "true" : "false";
  }
  fail_at(path, where, key, "a text, a number or true/false is expected");
}

/// A path relative to the folder of the deployment file.
[[nodiscard]] std::string beside(const std::string& path, const std::string& value) {
  const fs::path given{value};
  return given.is_absolute() ? value : (fs::path{path}.parent_path() / given).string();
}

[[nodiscard]] bool names_a_file(OptionId id) noexcept {
  return id == OptionId::kDrafter || id == OptionId::kKernels || id == OptionId::kGpus;
}

/// A model beside the file if it is there or is written as a path; else it is a name.
[[nodiscard]] std::string model_beside(const std::string& path, const std::string& value) {
  const std::string joined = beside(path, value);
  std::error_code failed;
  const bool is_path = value.starts_with('.') || value.ends_with(".json");
  return is_path || fs::exists(joined, failed) ? joined : value;
}

/// The values of one key, checked against the option's arity.
[[nodiscard]] std::vector<GivenValue> values_of(const OptionSpec& spec, const toml::node& node,
                                                const std::string& path, const std::string& key) {
  std::vector<GivenValue> values;
  const auto add = [&](const toml::node& scalar) {
    const std::string where = place(scalar.source().begin);
    std::string text = text_of(scalar, path, where, key);
    if ((spec.arity == Arity::kFlag) != scalar.is_boolean()) {
      fail_at(path, where, key,
              spec.arity == Arity::kFlag ? "true or false is expected"
                                         : "a text or a number is expected");
    }
    if (names_a_file(spec.id)) {
      text = spec.id == OptionId::kDrafter ? model_beside(path, text) : beside(path, text);
    }
    values.push_back(GivenValue{.text = std::move(text), .file = path, .place = where});
  };
  if (const toml::array* array = node.as_array(); array && spec.arity == Arity::kRepeated) {
    for (const toml::node& element : *array) {
      add(element);
    }
  } else {
    add(node);
  }
  return values;
}

void add_key(const std::string& path, const std::string& key, const toml::source_position& position,
             const toml::node& node, std::map<OptionId, std::vector<GivenValue>>& found,
             Options& options) {
  const std::string where = place(position);
  if (key == "model") {
    const std::string text = model_beside(path, text_of(node, path, where, key));
    if (options.input.empty()) {
      options.input = text;
    }
    return;
  }
  const OptionSpec* spec = find_option(key, Command::kPlan);
  if (spec != nullptr && (spec->id == OptionId::kJson || spec->id == OptionId::kDeployment)) {
    fail_at(path, where, key, "stands on the command line alone: " + spec->flag());
  }
  if (spec == nullptr) {
    const std::string_view advice = foreign_option_advice(key);
    std::vector<std::string_view> known = spellings_of(Command::kPlan);
    known.emplace_back("model");
    std::string typed = key;
    std::ranges::replace(typed, '_', '-');
    fail_at(path, where, key,
            advice.empty() ? "unknown key" + did_you_mean(typed, known)
                           : "not taken: " + std::string{advice},
            ErrorCode::kUnsupported);
  }
  if (found.contains(spec->id)) {
    fail_at(path, where, key, "the same option stands in " + found[spec->id].front().place);
  }
  std::vector<GivenValue> values = values_of(*spec, node, path, key);
  if (!values.empty()) {
    found[spec->id] = std::move(values);
  }
}

}  // namespace

void add_deployment_file(const std::string& path, Options& options,
                         std::vector<Error>* complaints) {
  add_deployment_text(read_text(path), path, options, complaints);
}

void add_deployment_text(const std::string& text, const std::string& path, Options& options,
                         std::vector<Error>* complaints) {
  std::map<OptionId, std::vector<GivenValue>> found;
  try {
    const toml::table table = toml::parse(text, std::string_view{path});
    for (const auto& [key, node] : table) {
      try {
        add_key(path, std::string{key.str()}, key.source().begin, node, found, options);
      } catch (const Failure& failure) {
        if (complaints == nullptr) {
          throw;
        }
        complaints->push_back(failure.error());
      }
    }
  } catch (const toml::parse_error& error) {
    fail_at(path, place(error.source().begin), "", std::string{error.description()});
  }
  for (auto& [id, values] : found) {
    if (!options.values.contains(id)) {
      options.values[id] = std::move(values);
    }
  }
}

}  // namespace kvpool::cli
