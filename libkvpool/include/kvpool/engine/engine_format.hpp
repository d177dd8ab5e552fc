// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/kv_dtype.hpp>
#include <kvpool/core/units.hpp>
#include <kvpool/engine/engine.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvpool {

/// How the bytes of a row follow from its elements.
enum class RowRule {
  kCarrier,     ///< as `PageGeometry` has them, in the carrier's format
  kPlainByte,   ///< one byte an element, scales outside the cache
  kTurboquant,  ///< packed bits, a 2-byte norm per K row and 4 bytes per V row
  kBlocks,      ///< blocks of 32 elements over all heads of a token
};

/// A cache format of an engine: one of kvpool's own, or one that only engines have. The layers are
/// always laid out by `PageGeometry`, in the carrier's format; the rules other than `kCarrier`
/// replace the bytes of the rows that it found.
struct EngineFormat {
  /// Name as the engine spells it.
  std::string name = "bf16";
  /// Format in which `PageGeometry` lays the layers out.
  KvDtype carrier = KvDtype::kBf16;
  /// How rows are sized.
  RowRule rule = RowRule::kCarrier;
  /// Bits of a K element (`kTurboquant`); 8 keeps K rows without a norm.
  std::int64_t key_bits = 0;
  /// Bits of a V element (`kTurboquant`).
  std::int64_t value_bits = 0;
  /// Bytes of a block of 32 elements (`kBlocks`).
  std::int64_t block_bytes = 0;

  /// Field by field.
  friend bool operator==(const EngineFormat&, const EngineFormat&) = default;
};

/// One of kvpool's own formats.
[[nodiscard]] EngineFormat engine_format(KvDtype dtype);

/// Reads a format as `engine` spells it. vLLM, SGLang, TensorRT-LLM: those of `parse_kv_dtype`, but
/// `int8` is one byte an element, and `turboquant_3bit_nc`, `_k3v4_nc`, `_4bit_nc`, `_k8v4` (with
/// or without `_nc`). llama.cpp and ik_llama.cpp: `f32`, `f16`, `bf16`, `q8_0`, `q5_1`, `q5_0`,
/// `q4_1`, `q4_0`, `iq4_nl`; ik_llama.cpp also `q6_0`.
[[nodiscard]] std::optional<EngineFormat> parse_engine_format(Engine engine, std::string_view text);

/// Reads the type of a recurrent state: `f32`, `bf16`, `f16` and their longer spellings.
[[nodiscard]] std::optional<KvDtype> parse_state_dtype(std::string_view text) noexcept;

/// Elements of a block of the formats of llama.cpp.
inline constexpr std::int64_t kBlockElements = 32;

/// Bytes of one token of one K and V pair of a head.
struct PairBytes {
  /// K row, scales included.
  Bytes key{};
  /// V row, scales included.
  Bytes value{};
};

/// Rows of a format that packs bits (`kTurboquant`): K ceil(bits*dk/8) + 2, but dk at 8 bits;
/// V ceil(bits*dv/8) + 4; the sum is rounded up to an even number, at V's cost.
[[nodiscard]] PairBytes turboquant_pair(const EngineFormat& format, std::int64_t key_dim,
                                        std::int64_t value_dim) noexcept;

}  // namespace kvpool
