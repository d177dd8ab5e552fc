// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace kvpool::block {

/// Address space of whole OS pages, zero until written, that takes memory as it is touched.
class ReservedBytes {
 public:
  ReservedBytes() noexcept = default;
  /// Reserves `size` bytes; `data()` stays null when the system refuses, or for 0.
  explicit ReservedBytes(std::size_t size) noexcept;
  ReservedBytes(ReservedBytes&& other) noexcept { swap(other); }
  ReservedBytes& operator=(ReservedBytes&& other) noexcept {
    ReservedBytes moved{std::move(other)};
    swap(moved);
    return *this;
  }
  ReservedBytes(const ReservedBytes&) = delete;
  ReservedBytes& operator=(const ReservedBytes&) = delete;
  ~ReservedBytes();

  /// First byte, aligned to an OS page.
  [[nodiscard]] void* data() const noexcept { return data_; }
  /// Bytes asked for.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  void swap(ReservedBytes& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// An array of fixed size in reserved memory: all bits zero until written.
template <typename T>
  requires(std::is_trivially_copyable_v<T>)
class ReservedArray {
 public:
  ReservedArray() noexcept = default;
  /// Reserves `count` elements; see `ok()`.
  explicit ReservedArray(std::size_t count) noexcept
      : bytes_{count <= std::numeric_limits<std::size_t>::max() / sizeof(T) ? count * sizeof(T)
                                                                            : 0},
        data_{static_cast<T*>(bytes_.data())},
        size_{data_ != nullptr ? count : 0},
        ok_{count == 0 || data_ != nullptr} {}

  /// False when the system did not give the address space.
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  /// Element `i`. @pre i < size()
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data_[i]; }
  /// Element `i`. @pre i < size()
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  /// First element.
  [[nodiscard]] T* data() noexcept { return data_; }
  /// First element.
  [[nodiscard]] const T* data() const noexcept { return data_; }
  /// Elements.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Bytes when all of it has been touched.
  [[nodiscard]] std::int64_t bytes() const noexcept {
    return static_cast<std::int64_t>(bytes_.size());
  }

 private:
  ReservedBytes bytes_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
  bool ok_ = true;
};

}  // namespace kvpool::block
