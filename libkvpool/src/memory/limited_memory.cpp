// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/limited_memory.hpp>

#include "core/format.hpp"

#include <absl/container/btree_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvpool {

struct LimitedMemory::State {
  AnyPageMemory upstream;
  Bytes limit;
  Bytes held = {};
  /// Committed bytes of each region, by address.
  absl::btree_map<std::uintptr_t, Bytes> committed = {};
};

LimitedMemory::LimitedMemory(AnyPageMemory upstream, Bytes limit)
    : state_{std::make_shared<State>(
          State{.upstream = std::move(upstream), .limit = std::max(limit, Bytes{0})})} {}

Result<Region> LimitedMemory::reserve(Bytes size) { return state_->upstream.reserve(size); }

Result<void> LimitedMemory::commit(const Region& region, Bytes offset, Bytes size) {
  const Bytes room = state_->limit - state_->held;
  if (size > room) {
    return Error{
        .code = ErrorCode::kExhausted,
        .message = fmt::format("committing {} on top of {} exceeds the limit of {}: {} are "
                               "missing",
                               format_bytes(size), format_bytes(state_->held),
                               format_bytes(state_->limit), format_bytes(size - room))};
  }
  auto result = state_->upstream.commit(region, offset, size);
  if (result) {
    state_->held += size;
    state_->committed[region.address] += size;
  }
  return result;
}

Result<void> LimitedMemory::decommit(const Region& region, Bytes offset, Bytes size) {
  auto result = state_->upstream.decommit(region, offset, size);
  if (!result) {
    return result;
  }
  // What was committed past this handle was never counted.
  Bytes& committed = state_->committed[region.address];
  const Bytes counted = std::min(size, committed);
  committed -= counted;
  state_->held -= counted;
  return result;
}

Result<void> LimitedMemory::release(const Region& region) {
  auto result = state_->upstream.release(region);
  if (!result) {
    return result;
  }
  if (const auto entry = state_->committed.find(region.address); entry != state_->committed.end()) {
    state_->held -= entry->second;
    state_->committed.erase(entry);
  }
  return result;
}

Bytes LimitedMemory::granularity() const { return state_->upstream.granularity(); }

Bytes LimitedMemory::held() const { return state_->held; }

Bytes LimitedMemory::limit() const { return state_->limit; }

}  // namespace kvpool
