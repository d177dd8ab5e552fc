// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/engine/engine_format.hpp>

#include <kvpool/core/checked.hpp>

#include <algorithm>
#include <array>

namespace kvpool {
namespace {

struct BlockType {
  std::string_view name;
  std::int64_t bytes;
  bool ik_only = false;
};

// Bytes of 32 elements, scales and offsets included.
constexpr std::array kBlockTypes{BlockType{"q8_0", 34},  BlockType{"q6_0", 26, true},
                                 BlockType{"q5_1", 24},  BlockType{"q5_0", 22},
                                 BlockType{"q4_1", 20},  BlockType{"q4_0", 18},
                                 BlockType{"iq4_nl", 18}};

struct BitType {
  std::string_view name;
  std::int64_t key_bits;
  std::int64_t value_bits;
};

constexpr std::array kBitTypes{BitType{"turboquant_3bit", 3, 3}, BitType{"turboquant_k3v4", 3, 4},
                               BitType{"turboquant_4bit", 4, 4}, BitType{"turboquant_k8v4", 8, 4}};

constexpr std::int64_t kByteBits = 8;
/// What a packed K row keeps beside its bits, and a packed V row.
constexpr std::int64_t kKeyNormBytes = 2;
constexpr std::int64_t kValueNormBytes = 4;

bool is_llama(Engine engine) noexcept {
  return engine == Engine::kLlamacpp || engine == Engine::kIkLlamacpp;
}

std::optional<EngineFormat> parse_llama_format(Engine engine, std::string_view text) {
  for (const auto& [name, dtype] :
       {std::pair{"f32", KvDtype::kFp32}, {"f16", KvDtype::kFp16}, {"bf16", KvDtype::kBf16}}) {
    if (text == name) {
      return EngineFormat{.name = name, .carrier = dtype};
    }
  }
  const auto* found = std::ranges::find(kBlockTypes, text, &BlockType::name);
  if (found == kBlockTypes.end() || (found->ik_only && engine != Engine::kIkLlamacpp)) {
    return std::nullopt;
  }
  return EngineFormat{.name = std::string{found->name},
                      .carrier = KvDtype::kFp16,
                      .rule = RowRule::kBlocks,
                      .block_bytes = found->bytes};
}

}  // namespace

EngineFormat engine_format(KvDtype dtype) {
  return EngineFormat{.name = std::string{to_string(dtype)}, .carrier = dtype};
}

std::optional<EngineFormat> parse_engine_format(Engine engine, std::string_view text) {
  if (is_llama(engine)) {
    return parse_llama_format(engine, text);
  }
  if (text == "int8") {
    return EngineFormat{.name = "int8", .carrier = KvDtype::kFp8E4m3, .rule = RowRule::kPlainByte};
  }
  std::string_view stem = text;
  if (stem.ends_with("_nc")) {
    stem.remove_suffix(3);
  }
  if (const auto* found = std::ranges::find(kBitTypes, stem, &BitType::name);
      found != kBitTypes.end()) {
    return EngineFormat{.name = std::string{text},
                        .carrier = KvDtype::kBf16,
                        .rule = RowRule::kTurboquant,
                        .key_bits = found->key_bits,
                        .value_bits = found->value_bits};
  }
  const auto dtype = parse_kv_dtype(text);
  if (!dtype.has_value()) {
    return std::nullopt;
  }
  return EngineFormat{.name = std::string{text}, .carrier = *dtype};
}

std::optional<KvDtype> parse_state_dtype(std::string_view text) noexcept {
  if (text == "f32") {
    return KvDtype::kFp32;
  }
  if (text == "f16") {
    return KvDtype::kFp16;
  }
  const auto dtype = parse_kv_dtype(text);
  const bool plain = dtype == KvDtype::kFp32 || dtype == KvDtype::kBf16 || dtype == KvDtype::kFp16;
  return plain ? dtype : std::nullopt;
}

PairBytes turboquant_pair(const EngineFormat& format, std::int64_t key_dim,
                          std::int64_t value_dim) noexcept {
  CheckedInt key{key_dim};
  if (format.key_bits != kByteBits) {
    key = ceil_div(CheckedInt{format.key_bits} * key_dim, kByteBits) + kKeyNormBytes;
  }
  const CheckedInt value =
      ceil_div(CheckedInt{format.value_bits} * value_dim, kByteBits) + kValueNormBytes;
  const CheckedInt even = ceil_div(key + value, 2) * 2;
  return {.key = Bytes{key.saturated()}, .value = Bytes{(even - key).saturated()}};
}

}  // namespace kvpool
