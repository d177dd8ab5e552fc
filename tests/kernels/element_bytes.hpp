// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kvpool/kernels/cache_operand.hpp>
#include <kvpool/kernels/narrow_float.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace kvpool::test {

/// Values of one element type, as bytes.
class Elements {
 public:
  explicit Elements(kernels::ElementType type) : type_{type} {}

  void store(std::byte* to, float value) const {
    if (type_ == kernels::ElementType::kFp32) {
      std::memcpy(to, &value, sizeof(value));
      return;
    }
    const std::uint16_t bits = type_ == kernels::ElementType::kBf16 ? kernels::float_to_bf16(value)
                                                                    : kernels::float_to_fp16(value);
    std::memcpy(to, &bits, sizeof(bits));
  }
  [[nodiscard]] float load(const std::byte* from) const {
    if (type_ == kernels::ElementType::kFp32) {
      float value = 0.0F;
      std::memcpy(&value, from, sizeof(value));
      return value;
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof(bits));
    return type_ == kernels::ElementType::kBf16 ? kernels::bf16_to_float(bits)
                                                : kernels::fp16_to_float(bits);
  }
  /// What is left of a value in this type.
  [[nodiscard]] float round(float value) const {
    std::byte bytes[sizeof(float)];
    store(bytes, value);
    return load(bytes);
  }
  /// The bytes of many values.
  [[nodiscard]] std::vector<std::byte> bytes(const std::vector<float>& values) const {
    const auto size = static_cast<std::size_t>(kernels::element_bytes(type_));
    std::vector<std::byte> result(values.size() * size);
    for (std::size_t i = 0; i < values.size(); ++i) {
      store(result.data() + i * size, values[i]);
    }
    return result;
  }

 private:
  kernels::ElementType type_;
};

}  // namespace kvpool::test
