// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/engine/engine.hpp>

#include <algorithm>
#include <array>
#include <charconv>

namespace kvpool {
namespace {

constexpr std::array kEngines{Engine::kVllm, Engine::kSglang, Engine::kTrtllm, Engine::kLlamacpp,
                              Engine::kIkLlamacpp};

/// Larger numbers are dates or hashes, not releases.
constexpr std::int64_t kLargestNumber = 99'999'999;

}  // namespace

std::span<const Engine> all_engines() noexcept { return kEngines; }

std::string_view to_string(Engine engine) noexcept {
  switch (engine) {
    case Engine::kVllm: return "vllm";
    case Engine::kSglang: return "sglang";
    case Engine::kTrtllm: return "trtllm";
    case Engine::kLlamacpp: return "llamacpp";
    case Engine::kIkLlamacpp: return "ik_llamacpp";
  }
  return "vllm";
}

std::optional<Engine> parse_engine(std::string_view text) noexcept {
  const auto* found =
      std::ranges::find_if(kEngines, [text](Engine engine) { return to_string(engine) == text; });
  return found == kEngines.end() ? std::nullopt : std::optional{*found};
}

std::optional<EngineVersion> parse_engine_version(std::string_view text) noexcept {
  if (text.starts_with('v') || text.starts_with('b')) {
    text.remove_prefix(1);
  }
  std::array<std::int64_t, 3> numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto [stop, failed] = std::from_chars(at, end, numbers.at(i));
    if (failed != std::errc{} || numbers.at(i) < 0 || numbers.at(i) > kLargestNumber) {
      if (i == 0) {
        return std::nullopt;
      }
      numbers.at(i) = 0;
      break;
    }
    if (stop == end || *stop != '.') {
      break;
    }
    at = stop + 1;
  }
  return EngineVersion{.major = numbers[0], .minor = numbers[1], .patch = numbers[2]};
}

}  // namespace kvpool
