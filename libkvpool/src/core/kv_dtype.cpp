// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/core/kv_dtype.hpp>

#include <kvpool/core/checked.hpp>

#include <array>
#include <utility>

namespace kvpool {
namespace {

constexpr std::array kAllDtypes = {
    KvDtype::kFp32,
    KvDtype::kBf16,
    KvDtype::kFp16,
    KvDtype::kFp8E4m3,
    KvDtype::kFp8E5m2,
    KvDtype::kFp8E4m3PerTokenHead,
    KvDtype::kFp8E5m2PerTokenHead,
    KvDtype::kInt8PerTokenHead,
    KvDtype::kNvfp4,
    KvDtype::kFp8DsMla,
    KvDtype::kFp4Mla,
};

/// Spellings of engines and checkpoints beside those of `to_string`.
constexpr std::array<std::pair<std::string_view, KvDtype>, 13> kAliases = {{
    {"bfloat16", KvDtype::kBf16},
    {"float16", KvDtype::kFp16},
    {"half", KvDtype::kFp16},
    {"float32", KvDtype::kFp32},
    {"float", KvDtype::kFp32},
    {"fp8", KvDtype::kFp8E4m3},
    {"float8_e4m3fn", KvDtype::kFp8E4m3},
    {"e4m3", KvDtype::kFp8E4m3},
    {"float8_e5m2", KvDtype::kFp8E5m2},
    {"e5m2", KvDtype::kFp8E5m2},
    {"int8", KvDtype::kInt8PerTokenHead},
    {"fp8_per_token_head", KvDtype::kFp8E4m3PerTokenHead},
    {"fp4", KvDtype::kNvfp4},
}};

constexpr std::int64_t kFp32Bytes = 4;
constexpr std::int64_t k16BitBytes = 2;
/// Two fp4 elements share a byte.
constexpr std::int64_t kFp4PerByte = 2;
/// One fp8 scale covers this many fp4 elements.
constexpr std::int64_t kFp4BlockElements = 16;
/// One fp32 scale covers this many fp8 elements of a latent record or an indexer key.
constexpr std::int64_t kFp8BlockElements = 128;
/// `fp4_mla` stores this many residual elements beside latent and rope.
constexpr std::int64_t kFp4MlaResidual = 64;
/// `fp4_mla` quantises tiles of this many tokens; the newest, unfinished tile stays in bf16.
constexpr std::int64_t kFp4MlaTileTokens = 16;

Bytes bytes(CheckedInt value) noexcept { return Bytes{value.saturated()}; }

RowBytes nvfp4_row(CheckedInt elements) noexcept {
  return {.data = bytes(ceil_div(elements, kFp4PerByte)),
          .scales = bytes(ceil_div(elements, kFp4BlockElements))};
}

}  // namespace

std::span<const KvDtype> all_kv_dtypes() noexcept { return kAllDtypes; }

std::string_view to_string(KvDtype dtype) noexcept {
  switch (dtype) {
    case KvDtype::kFp32: return "fp32";
    case KvDtype::kBf16: return "bf16";
    case KvDtype::kFp16: return "fp16";
    case KvDtype::kFp8E4m3: return "fp8_e4m3";
    case KvDtype::kFp8E5m2: return "fp8_e5m2";
    case KvDtype::kFp8E4m3PerTokenHead: return "fp8_e4m3_per_token_head";
    case KvDtype::kFp8E5m2PerTokenHead: return "fp8_e5m2_per_token_head";
    case KvDtype::kInt8PerTokenHead: return "int8_per_token_head";
    case KvDtype::kNvfp4: return "nvfp4";
    case KvDtype::kFp8DsMla: return "fp8_ds_mla";
    case KvDtype::kFp4Mla: return "fp4_mla";
  }
  return "unknown";
}

std::optional<KvDtype> parse_kv_dtype(std::string_view text) noexcept {
  for (const KvDtype dtype : kAllDtypes) {
    if (text == to_string(dtype)) {
      return dtype;
    }
  }
  for (const auto& [spelling, dtype] : kAliases) {
    if (text == spelling) {
      return dtype;
    }
  }
  return std::nullopt;
}

bool is_latent_only(KvDtype dtype) noexcept {
  return dtype == KvDtype::kFp8DsMla || dtype == KvDtype::kFp4Mla;
}

std::optional<Bytes> plain_element_bytes(KvDtype dtype) noexcept {
  switch (dtype) {
    case KvDtype::kFp32: return Bytes{kFp32Bytes};
    case KvDtype::kBf16:
    case KvDtype::kFp16: return Bytes{k16BitBytes};
    case KvDtype::kFp8E4m3:
    case KvDtype::kFp8E5m2: return Bytes{1};
    case KvDtype::kFp8E4m3PerTokenHead:
    case KvDtype::kFp8E5m2PerTokenHead:
    case KvDtype::kInt8PerTokenHead:
    case KvDtype::kNvfp4:
    case KvDtype::kFp8DsMla:
    case KvDtype::kFp4Mla: return std::nullopt;
  }
  return std::nullopt;
}

std::optional<RowBytes> key_value_row(KvDtype dtype, std::int64_t elements) noexcept {
  const CheckedInt width{elements};
  if (const auto element = plain_element_bytes(dtype)) {
    return RowBytes{.data = bytes(width * element->count()), .scales = Bytes{0}};
  }
  switch (dtype) {
    case KvDtype::kFp8E4m3PerTokenHead:
    case KvDtype::kFp8E5m2PerTokenHead:
    case KvDtype::kInt8PerTokenHead:
      return RowBytes{.data = Bytes{elements}, .scales = Bytes{kFp32Bytes}};
    case KvDtype::kNvfp4: return nvfp4_row(width);
    default: return std::nullopt;
  }
}

std::optional<RowBytes> latent_row(KvDtype dtype, std::int64_t latent, std::int64_t rope) noexcept {
  const CheckedInt width = CheckedInt{latent} + rope;
  if (const auto element = plain_element_bytes(dtype)) {
    return RowBytes{.data = bytes(width * element->count()), .scales = Bytes{0}};
  }
  switch (dtype) {
    case KvDtype::kNvfp4: return nvfp4_row(width);
    case KvDtype::kFp8DsMla: {
      const CheckedInt scales = ceil_div(CheckedInt{latent}, kFp8BlockElements) * kFp32Bytes;
      return RowBytes{.data = bytes(CheckedInt{latent} + scales + CheckedInt{rope} * k16BitBytes),
                      .scales = Bytes{0}};
    }
    case KvDtype::kFp4Mla: {
      const CheckedInt stored = width + kFp4MlaResidual;
      return RowBytes{.data = bytes(ceil_div(stored, kFp4PerByte)),
                      .scales = bytes(ceil_div(stored, kFp4BlockElements) +
                                      ceil_div(CheckedInt{latent}, kFp4BlockElements))};
    }
    default: return std::nullopt;
  }
}

RowBytes indexer_row(std::int64_t elements) noexcept {
  return {.data = Bytes{elements},
          .scales = bytes(ceil_div(CheckedInt{elements}, kFp8BlockElements) * kFp32Bytes)};
}

Bytes latent_tail(KvDtype dtype, std::int64_t latent, std::int64_t rope,
                  std::int64_t max_rewind) noexcept {
  if (dtype != KvDtype::kFp4Mla) {
    return Bytes{0};
  }
  return bytes((CheckedInt{kFp4MlaTileTokens} + max_rewind) * (CheckedInt{latent} + rope) *
               k16BitBytes);
}

}  // namespace kvpool
