// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/units.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kvpool {

/// How cached elements are stored, scales included. One format covers a whole pool; the recurrent
/// state and the convolution state of a model have formats of their own.
enum class KvDtype {
  kFp32,                 ///< 4 bytes an element
  kBf16,                 ///< 2 bytes an element
  kFp16,                 ///< 2 bytes an element
  kFp8E4m3,              ///< 1 byte, one scale per tensor (kept outside the pool)
  kFp8E5m2,              ///< 1 byte, one scale per tensor (kept outside the pool)
  kFp8E4m3PerTokenHead,  ///< 1 byte, an fp32 scale per token and head, for K and for V
  kFp8E5m2PerTokenHead,  ///< 1 byte, an fp32 scale per token and head, for K and for V
  kInt8PerTokenHead,     ///< 1 byte, an fp32 scale per token and head, for K and for V
  kNvfp4,                ///< half a byte, an fp8 scale per 16 elements
  kFp8DsMla,             ///< MLA record: fp8 latent, fp32 scale per 128, 16-bit rope (656 B)
  kFp4Mla,               ///< MLA: fp4 of latent + rope + 64, block scales, V scales (392 B)
};

/// All formats, in declaration order.
[[nodiscard]] std::span<const KvDtype> all_kv_dtypes() noexcept;

/// The spelling used on the command line and in JSON, such as `bf16` or `fp8_ds_mla`.
[[nodiscard]] std::string_view to_string(KvDtype dtype) noexcept;

/// Reads a spelling that engines use: those of `to_string`, and `bfloat16`, `float16`, `half`,
/// `float32`, `float`, `fp8` (e4m3), `float8_e4m3fn`, `float8_e5m2`, `e4m3`, `e5m2`, `int8`,
/// `fp8_per_token_head`, `fp4` and `nvfp4`. Nothing for any other text.
[[nodiscard]] std::optional<KvDtype> parse_kv_dtype(std::string_view text) noexcept;

/// True for formats that only the latent cache of MLA can have.
[[nodiscard]] bool is_latent_only(KvDtype dtype) noexcept;

/// Bytes of one plain element. @pre the format has whole bytes an element and no scales in the
/// pool: fp32, bf16, fp16, fp8 per tensor; for all others nothing.
[[nodiscard]] std::optional<Bytes> plain_element_bytes(KvDtype dtype) noexcept;

/// Bytes that one row (one token, one head) takes in a page: data, and scales kept apart from the
/// data in a plane of their own. Neither includes alignment.
struct RowBytes {
  /// Elements.
  Bytes data{};
  /// Scales, 0 when the format keeps none in the pool.
  Bytes scales{};

  /// Field by field.
  friend bool operator==(const RowBytes&, const RowBytes&) = default;
};

/// Row of `elements` K or V elements of one head. Here and below, a result that does not fit into
/// 64 bits is the largest 64-bit number. @pre element counts are not negative
/// nvfp4: ceil(d/2) + ceil(d/16); per token and head: d + 4; else d times the element size.
/// @return Nothing when the format is for latent caches only.
[[nodiscard]] std::optional<RowBytes> key_value_row(KvDtype dtype, std::int64_t elements) noexcept;

/// Row of an MLA latent cache with `latent` compressed and `rope` positional elements.
/// 16 bit: 2·(latent+rope). fp8: latent+rope. `fp8_ds_mla`: latent + 4·ceil(latent/128) + 2·rope,
/// one record without a scale plane. `fp4_mla`: data (latent+rope+64)/2; scales (latent+rope+64)/16
/// for K and latent/16 for V. nvfp4 as a plain row.
/// @return Nothing when the format has no latent form (int8 per token and head, say).
[[nodiscard]] std::optional<RowBytes> latent_row(KvDtype dtype, std::int64_t latent,
                                                 std::int64_t rope) noexcept;

/// Row of a sparse-attention indexer key: `elements` fp8 and an fp32 scale per 128 (132 B for 128),
/// whatever the pool's format is.
[[nodiscard]] RowBytes indexer_row(std::int64_t elements) noexcept;

/// Fixed bytes that `fp4_mla` keeps per sequence and layer beside the pages: a ring of the newest
/// `16 + max_rewind` tokens in bf16. 0 for every other format.
/// @param max_rewind draft tokens that a step may reject
[[nodiscard]] Bytes latent_tail(KvDtype dtype, std::int64_t latent, std::int64_t rope,
                                std::int64_t max_rewind) noexcept;

}  // namespace kvpool
