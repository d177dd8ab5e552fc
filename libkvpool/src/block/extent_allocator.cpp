// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block/extent_allocator.hpp"

#include <algorithm>
#include <bit>

namespace kvpool::block {

ExtentAllocator::ExtentAllocator(std::uint32_t units) noexcept : units_{units} {
  for (std::uint32_t order = 0; order < kOrders && (units >> order) != 0; ++order) {
    free_[order] = BitTree{units >> order};
  }
  if (ok()) {
    free({.start = 0, .units = units});
  }
}

bool ExtentAllocator::ok() const noexcept {
  return std::ranges::all_of(free_, [](const BitTree& order) { return order.ok(); });
}

Extent ExtentAllocator::allocate(std::uint32_t units) noexcept {
  if (orders_ == 0) {
    return {};
  }
  const auto fitting = static_cast<std::uint32_t>(std::bit_width(units - 1));
  const std::uint32_t large_enough = fitting < kOrders ? orders_ >> fitting << fitting : 0;
  // The smallest that is large enough; else the largest.
  const auto order = large_enough != 0 ? static_cast<std::uint32_t>(std::countr_zero(large_enough))
                                       : static_cast<std::uint32_t>(std::bit_width(orders_)) - 1;
  const auto index = free_[order].first();
  free_[order].erase(*index);
  if (!free_[order].first().has_value()) {
    orders_ &= ~(1U << order);
  }
  const std::uint32_t size = 1U << order;
  const auto start = static_cast<std::uint32_t>(*index << order);
  free_units_ -= size;
  const std::uint32_t taken = std::min(units, size);
  free({.start = start + taken, .units = size - taken});
  return {.start = start, .units = taken};
}

void ExtentAllocator::free(Extent extent) noexcept {
  free_units_ += extent.units;
  while (extent.units != 0) {
    // The largest aligned block at the start of what is left.
    const int alignment = extent.start == 0 ? 31 : std::countr_zero(extent.start);
    const int size = static_cast<int>(std::bit_width(extent.units)) - 1;
    const auto order = static_cast<std::uint32_t>(std::min(alignment, size));
    free_block(extent.start, order);
    extent.start += 1U << order;
    extent.units -= 1U << order;
  }
}

void ExtentAllocator::free_block(std::uint32_t start, std::uint32_t order) noexcept {
  std::uint32_t index = start >> order;
  while (order + 1 < kOrders && (units_ >> (order + 1)) != 0) {
    const std::uint32_t buddy = index ^ 1U;
    if ((std::uint64_t{buddy} + 1) << order > units_ || !free_[order].contains(buddy)) {
      break;
    }
    free_[order].erase(buddy);
    if (!free_[order].first().has_value()) {
      orders_ &= ~(1U << order);
    }
    index >>= 1;
    ++order;
  }
  free_[order].insert(index);
  orders_ |= 1U << order;
}

bool ExtentAllocator::is_free(std::uint32_t unit) const noexcept {
  for (std::uint32_t order = 0; order < kOrders && (units_ >> order) != 0; ++order) {
    const std::uint32_t index = unit >> order;
    if (index < (units_ >> order) && free_[order].contains(index)) {
      return true;
    }
  }
  return false;
}

std::int64_t ExtentAllocator::bytes() const noexcept {
  std::int64_t sum = 0;
  for (const BitTree& order : free_) {
    sum += order.bytes();
  }
  return sum;
}

}  // namespace kvpool::block
