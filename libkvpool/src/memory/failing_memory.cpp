// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
#include <kvpool/memory/failing_memory.hpp>

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace kvpool {

struct FailingMemory::State {
  /// Counts a call. @return the failure if this is the call that fails
  std::optional<Error> fail(std::string_view name, std::optional<std::int64_t> failing,
                            std::int64_t& calls) const {
    ++calls;
    if (calls != failing) {
      return std::nullopt;
    }
    return Error{.code = plan.code,
                 .message = fmt::format("call {} of {} fails, as planned", calls, name)};
  }

  AnyPageMemory upstream;
  FailurePlan plan;
  std::int64_t reserves = 0;
  std::int64_t commits = 0;
  std::int64_t decommits = 0;
};

FailingMemory::FailingMemory(AnyPageMemory upstream, const FailurePlan& plan)
    : state_{std::make_shared<State>(State{.upstream = std::move(upstream), .plan = plan})} {}

Result<Region> FailingMemory::reserve(Bytes size) {
  if (auto error = state_->fail("reserve", state_->plan.reserve, state_->reserves)) {
    return *std::move(error);
  }
  return state_->upstream.reserve(size);
}

Result<void> FailingMemory::commit(const Region& region, Bytes offset, Bytes size) {
  if (auto error = state_->fail("commit", state_->plan.commit, state_->commits)) {
    return *std::move(error);
  }
  return state_->upstream.commit(region, offset, size);
}

Result<void> FailingMemory::decommit(const Region& region, Bytes offset, Bytes size) {
  if (auto error = state_->fail("decommit", state_->plan.decommit, state_->decommits)) {
    return *std::move(error);
  }
  return state_->upstream.decommit(region, offset, size);
}

Result<void> FailingMemory::release(const Region& region) {
  return state_->upstream.release(region);
}

Bytes FailingMemory::granularity() const { return state_->upstream.granularity(); }

Bytes FailingMemory::held() const { return state_->upstream.held(); }

}  // namespace kvpool
