// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// A manager and the step clock of an engine, for tests.
#pragma once

#include <kvpool/block/block_manager.hpp>

#include "support/block_pools.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace kvpool::test {

class StepEngine {
 public:
  explicit StepEngine(const std::vector<PoolDescriptor>& pools,
                      const BlockManagerOptions& options = {})
      : blocks{make_manager(pools, options)} {
    begin();
  }

  /// Opens the next step; earlier ones go on.
  void begin() { REQUIRE(blocks.begin_step(Epoch{++step}, Instant{now}) == BlockStatus::kOk); }
  /// Opens the next step; all earlier ones have completed.
  void next() {
    begin();
    REQUIRE(blocks.complete_until(Epoch{step - 1}) == BlockStatus::kOk);
  }
  /// Admits a prompt that has to fit.
  AdmitOutcome admit(const std::vector<std::int32_t>& tokens, const AdmitRequest& like = {}) {
    AdmitRequest request = like;
    request.prompt.tokens = tokens;
    const AdmitOutcome outcome = blocks.admit(request);
    REQUIRE(outcome.status == BlockStatus::kOk);
    return outcome;
  }
  /// Commits the rest of a prompt. Steps end where snapshots are taken.
  void prefill(SequenceId sequence) {
    for (;;) {
      const SequenceLengths lengths = blocks.lengths(sequence);
      Tokens count = lengths.prompt - lengths.committed;
      if (count <= Tokens{0}) {
        return;
      }
      count = std::min(count, blocks.tokens_to_next_snapshot(sequence).value_or(count));
      REQUIRE(blocks.commit_prompt(sequence, count) == BlockStatus::kOk);
      if (blocks.lengths(sequence).committed < lengths.prompt) {
        next();
      }
    }
  }
  /// Leaves a prompt in the cache, free to be evicted.
  void leave(const std::vector<std::int32_t>& tokens, const AdmitRequest& like = {}) {
    const SequenceId sequence = admit(tokens, like).sequence;
    prefill(sequence);
    REQUIRE(blocks.release(sequence) == BlockStatus::kOk);
    next();
  }
  /// Tokens of a prompt that would be reused.
  [[nodiscard]] std::int64_t hit(const std::vector<std::int32_t>& tokens,
                                 const PrefixQuery& like = {}) const {
    PrefixQuery query = like;
    query.tokens = tokens;
    return blocks.match_prefix(query).tokens.count();
  }
  [[nodiscard]] std::int64_t available(std::int32_t group) const {
    return blocks.available_pages(GroupId{group}).count();
  }
  [[nodiscard]] std::int64_t held(std::int32_t group) const {
    return blocks.held_pages(GroupId{group}).count();
  }
  /// Entries of the blocks that a sequence holds in a group.
  [[nodiscard]] std::vector<std::int32_t> pages(SequenceId sequence, std::int32_t group) const {
    const GroupView view = blocks.view(sequence, GroupId{group});
    return {view.entries.begin() + view.held.first.value(),
            view.entries.begin() + view.held.last.value()};
  }
  /// Everything is consistent.
  void check() const {
    for (const Finding& finding : blocks.check_invariants(CheckLevel::kEverything)) {
      FAIL_CHECK(finding.message);
    }
  }

  BlockManager blocks;
  std::uint64_t step = 0;
  std::int64_t now = 0;
};

/// `count` tokens that no other `seed` has.
inline std::vector<std::int32_t> prompt(std::int32_t seed, std::int64_t count) {
  return tokens_from(seed * 100'000, count);
}
/// Two prompts, one after the other.
inline std::vector<std::int32_t> operator+(std::vector<std::int32_t> first,
                                           const std::vector<std::int32_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace kvpool::test
