// SPDX-FileCopyrightText: The kvpool authors
// SPDX-License-Identifier: Apache-2.0
//
// Several threads over one manager; the thread sanitizer looks on in the preset tsan.
#include <kvpool/block/locked_block_manager.hpp>

#include "support/block_pools.hpp"
#include "support/catch.hpp"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace kvpool::test {
namespace {

TEST_CASE("threads share a locked block manager") {
  LockedBlockManager locked{make_manager(
      {target_pool({full_group(1), window_group(16, 3)}, 4, 64), draft_pool({full_group()}, 8, 40)},
      {.max_sequences = Sequences{16}, .max_length = Tokens{128}})};
  std::uint64_t epoch = 1;
  REQUIRE(locked.with([&](BlockManager& blocks) {
    return blocks.begin_step(Epoch{epoch}, Instant{0});
  }) == BlockStatus::kOk);

  constexpr int kSchedulers = 3;
  std::atomic<int> running{kSchedulers};
  std::atomic<std::int64_t> admitted{0};
  std::atomic<std::int64_t> wrong{0};
  const auto expect = [&](BlockStatus status) { wrong += status == BlockStatus::kOk ? 0 : 1; };

  const auto schedule = [&](std::int32_t thread) {
    for (std::int32_t i = 0; admitted < 1'000; ++i) {
      // Prompts are shared between the threads, so that they hit and evict one another's.
      const std::vector<std::int32_t> tokens = tokens_from((i % 7) * 1'000, 20 + (i + thread) % 30);
      const AdmitOutcome outcome = locked.with([&](BlockManager& blocks) {
        const AdmitOutcome made = blocks.admit({.prompt = {.tokens = tokens}});
        blocks.clear_copies();
        return made;
      });
      if (outcome.status != BlockStatus::kOk) {
        std::this_thread::yield();  // until the clock has moved on
        continue;
      }
      ++admitted;
      expect(locked.with([&](BlockManager& blocks) {
        const SequenceLengths lengths = blocks.lengths(outcome.sequence);
        return blocks.commit_prompt(outcome.sequence, lengths.prompt - lengths.committed);
      }));
      for (int step = 0; step < 4; ++step) {
        locked.with([&](BlockManager& blocks) {
          if (blocks.append(outcome.sequence, Tokens{5}) == BlockStatus::kOk) {
            expect(blocks.commit(outcome.sequence, std::vector{thread, step}));
            expect(blocks.truncate(outcome.sequence, Tokens{3}));
          }
        });
      }
      expect(locked.with([&](BlockManager& blocks) { return blocks.release(outcome.sequence); }));
    }
    --running;
  };
  const auto tick = [&] {
    while (running > 0) {
      locked.with([&](BlockManager& blocks) {
        ++epoch;
        expect(blocks.begin_step(Epoch{epoch}, Instant{static_cast<std::int64_t>(epoch)}));
        expect(blocks.complete_until(Epoch{epoch - 1}));
      });
      std::this_thread::yield();
    }
  };
  const auto watch = [&] {
    const LockedBlockManager& view = locked;
    while (running > 0) {
      view.with([&](const BlockManager& blocks) {
        wrong += blocks.counters().admitted >= blocks.counters().released ? 0 : 1;
        wrong += blocks.available_pages(GroupId{0}) >= Pages{0} ? 0 : 1;
        wrong += blocks.check_invariants(CheckLevel::kCheap).empty() ? 0 : 1;
      });
      std::this_thread::yield();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::int32_t i = 0; i < kSchedulers; ++i) {
      threads.emplace_back(schedule, i);
    }
    threads.emplace_back(tick);
    threads.emplace_back(watch);
  }
  CHECK(wrong == 0);
  CHECK(admitted >= 1'000);
  locked.with([](BlockManager& blocks) {
    CHECK(blocks.live_sequences() == Sequences{0});
    CHECK(blocks.counters().admitted == blocks.counters().released);
    CHECK(blocks.held_pages(GroupId{0}) == Pages{0});
    CHECK(blocks.check_invariants(CheckLevel::kEverything).empty());
  });
}

}  // namespace
}  // namespace kvpool::test
