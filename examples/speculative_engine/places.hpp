// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace example {

/// Hands out arrays of a piece of memory, one behind the other, each aligned to 256 bytes as the
/// piece is. From address 0 it tells what the piece has to hold.
class Places {
 public:
  explicit Places(std::uintptr_t base) : next_{base} {}

  template <typename T>
  T* take(std::int64_t count) {
    T* const place = reinterpret_cast<T*>(next_);  // NOLINT: memory of a GPU, perhaps
    const std::uintptr_t bytes = static_cast<std::uintptr_t>(count) * sizeof(T);
    next_ += (bytes + 255) / 256 * 256;
    return place;
  }
  [[nodiscard]] std::uintptr_t next() const { return next_; }

 private:
  std::uintptr_t next_;
};

}  // namespace example
