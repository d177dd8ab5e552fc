// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include "block/owned_region.hpp"

#include <utility>

namespace kvpool {

OwnedRegion::OwnedRegion(AnyPageMemory memory, Region region)
    : memory_{std::move(memory)}, region_{region} {}

Result<OwnedRegion> OwnedRegion::create(AnyPageMemory memory, Bytes size) {
  const Result<Region> region = memory.reserve(align_up(size, memory.granularity()));
  if (!region) {
    return region.error();
  }
  const Result<void> committed = memory.commit(*region, Bytes{}, region->size);
  if (!committed) {
    static_cast<void>(memory.release(*region));
    return committed.error();
  }
  return OwnedRegion{std::move(memory), *region};
}

OwnedRegion::OwnedRegion(OwnedRegion&& other) noexcept
    : memory_{std::exchange(other.memory_, std::nullopt)},
      region_{std::exchange(other.region_, Region{})} {}

OwnedRegion& OwnedRegion::operator=(OwnedRegion&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(region_, other.region_);
  return *this;
}

OwnedRegion::~OwnedRegion() {
  if (memory_.has_value()) {
    static_cast<void>(memory_->release(region_));
  }
}

}  // namespace kvpool
