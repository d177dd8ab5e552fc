// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "host/geometry_scratch.hpp"

namespace kvpool::kernels {

GeometryScratch::~GeometryScratch() {
  if (region_.size > Bytes{0}) {
    static_cast<void>(memory_.release(region_));
  }
}

Result<void> GeometryScratch::lay_out(const std::vector<std::size_t>& sizes) {
  std::size_t total = 0;
  addresses_.clear();
  for (const std::size_t size : sizes) {
    addresses_.push_back(total);
    total += (size + 255) / 256 * 256;
  }
  const Bytes needed =
      align_up(Bytes{static_cast<std::int64_t>(total) + 256}, memory_.granularity());
  if (needed > region_.size) {
    if (region_.size > Bytes{0}) {
      if (auto released = memory_.release(region_); !released) {
        return released;
      }
      region_ = {};
    }
    auto region = memory_.reserve(needed);
    if (!region) {
      return std::move(region).error();
    }
    region_ = *region;
    if (auto committed = memory_.commit(region_, Bytes{0}, needed); !committed) {
      return committed;
    }
  }
  for (std::uintptr_t& address : addresses_) {
    address += region_.address;
  }
  return {};
}

Result<void> GeometryScratch::write(std::uintptr_t to, const void* from, std::size_t size) {
  return copy(to, address_of(from), size);
}

Result<void> GeometryScratch::read(void* to, std::uintptr_t from, std::size_t size) {
  return copy(address_of(to), from, size);
}

Result<void> GeometryScratch::copy(std::uintptr_t to, std::uintptr_t from, std::size_t size) {
  if (auto copied = queue_.copy_async(to, from, Bytes{static_cast<std::int64_t>(size)}); !copied) {
    return copied;
  }
  const auto ticket = queue_.record();
  if (!ticket) {
    return ticket.error();
  }
  return queue_.wait(*ticket);
}

}  // namespace kvpool::kernels
