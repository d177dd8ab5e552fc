// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/cuda/pinned_memory.hpp>

#include "cuda/whole_regions.hpp"

#include <utility>

namespace kvpool {
namespace {

cudaError_t allocate(void** address, std::size_t size) {
  return cudaHostAlloc(address, size, cudaHostAllocPortable);
}

cudaError_t give_back(void* address) { return cudaFreeHost(address); }

constexpr WholeRegionCalls kCalls{
    .name = "cudaHostAlloc", .allocate = &allocate, .free = &give_back};

}  // namespace

struct PinnedMemory::State {
  State(std::int32_t device, Bytes granularity) : regions{kCalls, device, granularity} {}

  WholeRegions regions;
};

PinnedMemory::PinnedMemory(std::shared_ptr<State> state) : state_{std::move(state)} {}

Result<PinnedMemory> PinnedMemory::create(std::int32_t device, Bytes granularity) {
  if (auto valid = WholeRegions::check(device, granularity); !valid) {
    return std::move(valid).error();
  }
  return PinnedMemory{std::make_shared<State>(device, granularity)};
}

Result<Region> PinnedMemory::reserve(Bytes size) { return state_->regions.reserve(size); }

Result<void> PinnedMemory::commit(const Region& region, Bytes offset, Bytes size) {
  return state_->regions.commit(region, offset, size);
}

Result<void> PinnedMemory::decommit(const Region& region, Bytes offset, Bytes size) {
  return state_->regions.decommit(region, offset, size);
}

Result<void> PinnedMemory::release(const Region& region) { return state_->regions.release(region); }

Bytes PinnedMemory::granularity() const { return state_->regions.granularity(); }

Bytes PinnedMemory::held() const { return state_->regions.held(); }

}  // namespace kvpool
