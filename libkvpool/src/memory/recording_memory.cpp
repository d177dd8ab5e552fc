// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/recording_memory.hpp>

#include <utility>

namespace kvpool {

struct RecordingMemory::State {
  AnyPageMemory upstream;
  std::vector<MemoryCall> calls = {};
};

std::string_view to_string(MemoryOperation operation) noexcept {
  switch (operation) {
    case MemoryOperation::kReserve: return "reserve";
    case MemoryOperation::kCommit: return "commit";
    case MemoryOperation::kDecommit: return "decommit";
    case MemoryOperation::kRelease: return "release";
  }
  return "unknown";
}

RecordingMemory::RecordingMemory(AnyPageMemory upstream)
    : state_{std::make_shared<State>(State{.upstream = std::move(upstream)})} {}

Result<Region> RecordingMemory::reserve(Bytes size) {
  auto result = state_->upstream.reserve(size);
  state_->calls.push_back({.operation = MemoryOperation::kReserve,
                           .region = result ? *result : Region{},
                           .offset = Bytes{0},
                           .size = size,
                           .succeeded = result.has_value()});
  return result;
}

Result<void> RecordingMemory::commit(const Region& region, Bytes offset, Bytes size) {
  auto result = state_->upstream.commit(region, offset, size);
  state_->calls.push_back({.operation = MemoryOperation::kCommit,
                           .region = region,
                           .offset = offset,
                           .size = size,
                           .succeeded = result.has_value()});
  return result;
}

Result<void> RecordingMemory::decommit(const Region& region, Bytes offset, Bytes size) {
  auto result = state_->upstream.decommit(region, offset, size);
  state_->calls.push_back({.operation = MemoryOperation::kDecommit,
                           .region = region,
                           .offset = offset,
                           .size = size,
                           .succeeded = result.has_value()});
  return result;
}

Result<void> RecordingMemory::release(const Region& region) {
  auto result = state_->upstream.release(region);
  state_->calls.push_back({.operation = MemoryOperation::kRelease,
                           .region = region,
                           .offset = Bytes{0},
                           .size = region.size,
                           .succeeded = result.has_value()});
  return result;
}

Bytes RecordingMemory::granularity() const { return state_->upstream.granularity(); }

Bytes RecordingMemory::held() const { return state_->upstream.held(); }

std::vector<MemoryCall> RecordingMemory::calls() const { return state_->calls; }

void RecordingMemory::clear() { state_->calls.clear(); }

}  // namespace kvpool
