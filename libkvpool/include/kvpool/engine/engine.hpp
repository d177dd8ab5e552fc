// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kvpool {

/// An inference engine whose cache arithmetic is known. See `docs/engines.md` for the rules of each
/// and where they come from.
enum class Engine {
  kVllm,        ///< vLLM: blocks shared by groups of layers
  kSglang,      ///< SGLang: token pools of whole layers, state slots
  kTrtllm,      ///< TensorRT-LLM: blocks, a fraction of what is free after the peak
  kLlamacpp,    ///< llama.cpp: cells of a context, a ring for windows
  kIkLlamacpp,  ///< ik_llama.cpp: as llama.cpp, windows ignored
};

/// All engines, in declaration order.
[[nodiscard]] std::span<const Engine> all_engines() noexcept;

/// Stable lower-case name: `vllm`, `sglang`, `trtllm`, `llamacpp`, `ik_llamacpp`.
[[nodiscard]] std::string_view to_string(Engine engine) noexcept;

/// Reads the spelling of `to_string`, or nothing.
[[nodiscard]] std::optional<Engine> parse_engine(std::string_view text) noexcept;

/// The number of an engine's release, as far as rules depend on it.
struct EngineVersion {
  /// First number.
  std::int64_t major = 0;
  /// Second number.
  std::int64_t minor = 0;
  /// Third number.
  std::int64_t patch = 0;

  /// Orders by number.
  friend auto operator<=>(const EngineVersion&, const EngineVersion&) = default;
};

/// Reads the leading numbers of a release: `0.20.1`, `v0.20.1rc1.dev16`, `0.11.x` (0.11.0), `b6500`
/// (a build of llama.cpp: 6500). Nothing for text that does not start with a number.
[[nodiscard]] std::optional<EngineVersion> parse_engine_version(std::string_view text) noexcept;

}  // namespace kvpool
