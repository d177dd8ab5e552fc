// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block/reserved_array.hpp"

#include <sys/mman.h>

namespace kvpool::block {
namespace {

/// From here on large pages of the OS pay: the tables are read in random order.
constexpr std::size_t kLarge = std::size_t{2} << 20;

}  // namespace

ReservedBytes::ReservedBytes(std::size_t size) noexcept {
  if (size == 0) {
    return;
  }
  void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {  // NOLINT: the system's constant
    return;
  }
  if (size >= kLarge) {
    // A wish: where the system has no large pages, small ones do.
    static_cast<void>(::madvise(mapped, size, MADV_HUGEPAGE));
  }
  data_ = mapped;
  size_ = size;
}

ReservedBytes::~ReservedBytes() {
  if (data_ != nullptr) {
    ::munmap(data_, size_);
  }
}

}  // namespace kvpool::block
