// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/core/result.hpp>
#include <kvpool/kernels/cache_operand.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace kvpool::kernels {

/// An element type in messages.
[[nodiscard]] constexpr std::string_view name_of(ElementType type) noexcept {
  switch (type) {
    case ElementType::kFp32: return "fp32";
    case ElementType::kBf16: return "bf16";
    case ElementType::kFp16: return "fp16";
    case ElementType::kFp8E4m3: return "fp8_e4m3";
  }
  return "unknown";
}

/// Rows of a source or an output: `[tokens, heads, dim]`.
struct RowsOfTensor {
  std::string_view name;
  const void* address = nullptr;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t dim = 0;
  ElementType type = ElementType::kBf16;
  bool written = false;
};

/// Collects the first fault of a params struct.
class FieldChecker {
 public:
  /// Largest stride, and largest distance of two rows along one dimension: sums of such distances
  /// in bytes fit into 64 bits.
  static constexpr std::int64_t kMaxStride = std::int64_t{1} << 58;
  /// Largest value of the fields that count in 32 bits.
  static constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();

  [[nodiscard]] Result<void> result() const {
    return fault_.has_value() ? Result<void>{*fault_} : Result<void>{};
  }

  void fail(ErrorCode code, std::string_view field, std::string message) {
    if (!fault_.has_value()) {
      fault_ = Error{.code = code, .message = std::move(message), .key = std::string{field}};
    }
  }

  void in(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high) {
      fail(ErrorCode::kInvalidArgument, field,
           fmt::format("{} is {}: give a value from {} to {}", field, value, low, high));
    }
  }

  /// The log-sum-exps of an attention or a merge, `[tokens, heads]`; null: none.
  void lse(const float* address, std::int64_t token_stride, std::int64_t head_stride,
           std::int64_t tokens, std::int64_t heads) {
    if (address == nullptr || tokens == 0) {
      return;
    }
    aligned("lse", address, alignof(float));
    in("lse_token_stride", token_stride, tokens > 1 ? 1 : 0, kMaxStride / tokens);
    in("lse_head_stride", head_stride, heads > 1 ? 1 : 0, kMaxStride / std::max(heads, kOne));
    if (!apart(token_stride, tokens, head_stride, heads, 1)) {
      fail(ErrorCode::kInvalidArgument, "lse_token_stride",
           overlap_text("lse", token_stride, tokens, head_stride, heads));
    }
  }

  void aligned(std::string_view field, const void* address, std::int64_t alignment) {
    const auto bits = reinterpret_cast<std::uintptr_t>(address);  // NOLINT: only its low bits count
    if (address == nullptr) {
      fail(ErrorCode::kInvalidArgument, field,
           fmt::format("{} is null: give an address, a multiple of {} bytes", field, alignment));
    } else if (bits % static_cast<std::uintptr_t>(alignment) != 0) {
      fail(ErrorCode::kInvalidArgument, field,
           fmt::format("{} is at {:#x}, not a multiple of {} bytes: align it", field, bits,
                       alignment));
    }
  }

  /// A stride between `count` rows. Between fewer than two it is never taken: any that is not
  /// negative will do.
  void stride_over(std::int64_t count, std::string_view field, std::int64_t bytes,
                   std::int64_t least) {
    if (count > 1) {
      stride(field, bytes, least);
    } else {
      in(field, bytes, 0, std::numeric_limits<std::int64_t>::max());
    }
  }

  void stride(std::string_view field, std::int64_t bytes, std::int64_t least) {
    if (bytes < least) {
      fail(ErrorCode::kInvalidArgument, field,
           fmt::format("{} is {} bytes: rows would overlap below {}, give at least that", field,
                       bytes, least));
    } else if (bytes % kAlignment != 0) {
      fail(ErrorCode::kInvalidArgument, field,
           fmt::format("{} is {} bytes, not a multiple of {}: pad it to one", field, bytes,
                       kAlignment));
    }
  }

  void dim(std::string_view field, std::int32_t dim) {
    if (dim < kDimStep || dim > kMaxDim || dim % kDimStep != 0) {
      fail(ErrorCode::kUnsupported, field,
           fmt::format("{} is {}: kernels take multiples of {} up to {}, pad rows to one", field,
                       dim, kDimStep, kMaxDim));
    }
  }

  void cache(std::string_view name, const CacheOperand& cache, std::int64_t heads,
             std::int64_t slots) {
    const auto field = [&](std::string_view part) { return fmt::format("{}.{}", name, part); };
    dim(field("dim"), cache.dim);
    aligned(field("base"), cache.base, kAlignment);
    const std::int64_t row = cache.dim * element_bytes(cache.type);
    // Entries may count in units smaller than a row: the gcd of the page sizes that share a pool.
    stride(field("entry_stride_bytes"), cache.entry_stride_bytes, kAlignment);
    stride_over(heads, field("head_stride_bytes"), cache.head_stride_bytes, row);
    stride_over(slots, field("slot_stride_bytes"), cache.slot_stride_bytes, row);
    in(field("entry_stride_bytes"), cache.entry_stride_bytes, kAlignment, kMaxStride);
    in(field("head_stride_bytes"), cache.head_stride_bytes, 0, kMaxStride / std::max(heads, kOne));
    in(field("slot_stride_bytes"), cache.slot_stride_bytes, 0, kMaxStride / std::max(slots, kOne));
    if (!apart(cache.slot_stride_bytes, slots, cache.head_stride_bytes, heads, row)) {
      fail(ErrorCode::kInvalidArgument, field("slot_stride_bytes"),
           fmt::format(
               "a page of {} of {} slots and {} heads overlaps itself with strides of {} and "
               "{} bytes: make one hold all rows of the other, of {} bytes each",
               name, slots, heads, cache.slot_stride_bytes, cache.head_stride_bytes, row));
    }
  }

  void rows(const RowsOfTensor& tensor) {
    if (tensor.tokens == 0) {
      return;
    }
    const auto field = [&](std::string_view part) {
      return fmt::format("{}{}", tensor.name, part);
    };
    const std::int64_t size = element_bytes(tensor.type);
    aligned(tensor.name, tensor.address, kAlignment);
    in(field("_token_stride"), tensor.token_stride, 0, kMaxStride / std::max(tensor.tokens, kOne));
    in(field("_head_stride"), tensor.head_stride, 0, kMaxStride / std::max(tensor.heads, kOne));
    if (fault_.has_value()) {
      return;
    }
    const std::int64_t row = tensor.dim * size;
    const bool tokens_repeat = !tensor.written;  // a source may broadcast, an output may not
    const std::int64_t least = tokens_repeat ? 0 : row;
    stride_over(tensor.tokens, field("_token_stride"), tensor.token_stride * size, least);
    stride_over(tensor.heads, field("_head_stride"), tensor.head_stride * size, least);
    if (tensor.written &&
        !apart(tensor.token_stride, tensor.tokens, tensor.head_stride, tensor.heads, tensor.dim)) {
      fail(ErrorCode::kInvalidArgument, field("_token_stride"),
           overlap_text(tensor.name, tensor.token_stride, tensor.tokens, tensor.head_stride,
                        tensor.heads));
    }
  }

 private:
  static constexpr std::int64_t kOne = 1;

  /// Whether a stride holds all rows of the other dimension.
  static bool holds(std::int64_t stride, std::int64_t inner_stride, std::int64_t inner_count,
                    std::int64_t row) {
    return stride >= row && inner_stride <= (stride - row) / std::max(inner_count - 1, kOne);
  }

  /// Whether rows of two dimensions are apart: one stride holds all rows of the other.
  static bool apart(std::int64_t a, std::int64_t a_count, std::int64_t b, std::int64_t b_count,
                    std::int64_t row) {
    return a_count <= 1 || b_count <= 1 || holds(a, b, b_count, row) || holds(b, a, a_count, row);
  }

  static std::string overlap_text(std::string_view name, std::int64_t token_stride,
                                  std::int64_t tokens, std::int64_t head_stride,
                                  std::int64_t heads) {
    return fmt::format(
        "{} of {} tokens and {} heads overlaps itself with strides {} and {}: make one "
        "hold all rows of the other",
        name, tokens, heads, token_stride, head_stride);
  }

  std::optional<Error> fault_;
};

}  // namespace kvpool::kernels
