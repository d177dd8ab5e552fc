// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "support/counting_new.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> count{0};

void* counted(std::size_t size, std::size_t alignment) {
  count.fetch_add(1, std::memory_order_relaxed);
  const std::size_t bytes = (size + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, bytes == 0 ? alignment : bytes);
  if (memory == nullptr) {
    throw std::bad_alloc{};
  }
  return memory;
}

}  // namespace

namespace kvpool::test {

std::int64_t allocations() noexcept { return count.load(std::memory_order_relaxed); }

}  // namespace kvpool::test

// The other forms of new and delete call these.
void* operator new(std::size_t size) { return counted(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
