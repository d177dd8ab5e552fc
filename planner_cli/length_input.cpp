// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "length_input.hpp"

#include <kvpool/core/size_text.hpp>

#include "exit_codes.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpool::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLargestFile = std::uintmax_t{64} << 20U;

[[noreturn]] void fail_in(const std::string& path, ErrorCode code, std::string message,
                          std::string value = {}) {
  throw Failure{ExitCode::kBadInput,
                Error{code, std::move(message), path, "lengths", std::move(value)}};
}

[[nodiscard]] std::string read_text(const std::string& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) {
    fail_in(path, ErrorCode::kNotFound,
            "there is no such file, and it is no list of percentiles such as "
            "p50=4k,p90=32k,max=128k");
  }
  if (fs::file_size(path, failed) > kLargestFile || failed) {
    fail_in(path, ErrorCode::kIo, "a file of lengths has at most 64 MiB");
  }
  std::ifstream file{path, std::ios::binary};
  std::string text{std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
  if (!file) {
    fail_in(path, ErrorCode::kIo, "the file of lengths could not be read");
  }
  return text;
}

/// One line without its comment and white space.
[[nodiscard]] std::string_view bare(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const std::size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) {
    return {};
  }
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

[[nodiscard]] LengthMix mix_of_file(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<Tokens> lengths;
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = bare(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) {
      continue;
    }
    const auto length = parse_token_count(line);
    if (!length || length->count() < 1) {
      fail_in(path, ErrorCode::kInvalidArgument,
              "line " + std::to_string(number) + ": " +
                  (length ? std::string{"at least 1 token is expected"} : length.error().message),
              std::string{line.substr(0, 40)});
    }
    lengths.push_back(*length);
  }
  Result<LengthMix> mix = mix_of_sample(lengths);
  if (!mix) {
    fail_in(path, ErrorCode::kInvalidArgument, mix.error().message);
  }
  return *std::move(mix);
}

}  // namespace

std::optional<LengthMix> read_lengths(const Options& options, const PlanRequest& request) {
  const GivenValue* given = options.find(OptionId::kLengths);
  if (given == nullptr) {
    return std::nullopt;
  }
  std::error_code failed;
  if (given->text.find('=') == std::string::npos || fs::is_regular_file(given->text, failed)) {
    return mix_of_file(given->text);
  }
  const std::optional<Tokens> longest = request.workload.max_model_len.has_value()
                                            ? request.workload.max_model_len
                                            : request.target.max_positions;
  if (!longest.has_value()) {
    given->fail(option_spec(OptionId::kLengths),
                "the config states no longest position: give --max-model-len");
  }
  Result<LengthMix> mix = parse_percentiles(given->text, *longest);
  if (!mix) {
    given->fail(option_spec(OptionId::kLengths), mix.error().message);
  }
  return *std::move(mix);
}

std::optional<LengthMix> read_lengths(const Options& options, const Plan& plan) {
  std::optional<LengthMix> mix = read_lengths(options, plan.request);
  if (mix.has_value() && mix->longest() > plan.resolution.max_model_len) {
    options.find(OptionId::kLengths)
        ->fail(option_spec(OptionId::kLengths),
               "a sequence of " + std::to_string(mix->longest().count()) +
                   " tokens is longer than the plan's longest, " +
                   std::to_string(plan.resolution.max_model_len.count()) + " (--max-model-len)");
  }
  return mix;
}

}  // namespace kvpool::cli
